"use strict";

const SHOWN_LABELS = 8;
const TITLES = { text: "Text", text_a: "First text", text_b: "Second text", sentences: "Sentences, one on each line" };

const form = document.getElementById("form");
const select = document.getElementById("bundle");
const texts = document.getElementById("texts");
const answer = document.getElementById("answer");
let bundles = [];
let latest = 0;

/** Make an element; its texts are set as text, so that no input is read as markup. */
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

function showBundle() {
  const bundle = bundles[select.selectedIndex];
  const needs = bundle.columns.length ? `; needs ${bundle.columns.join(", ")} too, so ask /predict` : "";
  document.getElementById("about").textContent =
    `${bundle.kind.replaceAll("_", " ")}, ${bundle.variant}${needs}`;
  const written = new Map([...texts.querySelectorAll("textarea")].map((area) => [area.name, area.value]));
  texts.replaceChildren(
    ...bundle.texts.map((name) => {
      const area = make("textarea");
      Object.assign(area, { id: name, name, rows: 3, required: true, value: written.get(name) ?? "" });
      const label = make("label", "", bundle.kind === "span" ? { text_a: "Question", text_b: "Passage" }[name] : TITLES[name]);
      label.htmlFor = name;
      return make("div", "field", label, area);
    }),
  );
  answer.replaceChildren();
}

/** Show the highest scores as bars. */
function makeBars(scores, chosen) {
  const ordered = Object.entries(scores).sort(([, a], [, b]) => b - a);
  const list = make("dl", "bars");
  for (const [label, score] of ordered.slice(0, SHOWN_LABELS)) {
    const bar = make("div", "bar");
    bar.style.width = `${100 * score}%`;
    const track = make("div", "track", bar);
    track.setAttribute("aria-hidden", "true");
    const figure = make("span", "figure", percent(score));
    list.append(make("dt", chosen.includes(label) ? "best" : "", label), make("dd", "", track, figure));
  }
  const left = ordered.length - SHOWN_LABELS;
  const found = [list];
  if (left > 0) found.push(make("p", "quiet", `and ${left} labels with lower scores`));
  return make("div", "card", ...found);
}

/** Return a hue of a type that is the same each time. */
function pickHue(type) {
  let sum = 7;
  for (const sign of type) sum = (sum * 31 + sign.codePointAt(0)) % 3600;
  return (sum * 137) % 360;
}

/** Show tokens with their entities marked, or each token with its tag where tags have no scheme. */
function makeTokens(item) {
  const single = item.tags.map((tag, idx) => ({ type: tag, first: idx, last: idx }));
  const entities = item.entities ?? single;
  const tokens = item.tokens ?? item.sentences;
  const line = make("p", "tokens");
  let next = 0;
  for (const { type, first, last } of entities) {
    line.append(tokens.slice(next, first).join(" "), " ");
    const words = tokens.slice(first, last + 1).join(" ");
    const mark = make("mark", "", `${words} `, make("small", "", type));
    mark.style.setProperty("--hue", pickHue(type));
    line.append(mark, " ");
    next = last + 1;
  }
  line.append(tokens.slice(next).join(" "));
  const found = [line];
  if (!entities.length) found.push(make("p", "quiet", "No entity was found."));
  return make("div", "card", ...found);
}

function showPrediction(item) {
  const found = [];
  const add = (title, ...content) => found.push(make("h2", "", title), ...content);
  if (item.scores) add(item.slots ? "Intent" : "Label", makeBars(item.scores, item.labels ?? [item.label]));
  if (item.tags) add(item.sentences ? "Labels" : "Entities", makeTokens(item));
  if (item.slots) add("Slots", makeTokens(item.slots));
  if (item.answer !== undefined) {
    const said = make("p", "said", item.answer || "The passage has no answer.");
    add("Answer", make("div", "card", said, make("p", "quiet", percent(item.confidence))));
  }
  if (item.tree) {
    const said = make("p", "said", item.tree.join(" "));
    add("Tree", make("div", "card", said, make("p", "quiet", percent(item.confidence))));
  }
  if (item.text !== undefined) {
    add("Text", make("div", "card", make("p", "said", item.text), make("p", "quiet", percent(item.confidence))));
  }
  if (item.score !== undefined) add("Score", make("p", "card said", item.score.toFixed(3)));
  answer.replaceChildren(...found);
}

function showProblem(text) {
  answer.replaceChildren(make("p", "card wrong", text));
}

async function predict() {
  const mine = ++latest;
  const example = Object.fromEntries(new FormData(form));
  answer.setAttribute("aria-busy", "true");
  try {
    const response = await fetch("predict", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ bundle: select.value, examples: [example] }),
    });
    const found = await response.json();
    if (mine !== latest) return;
    if (response.ok) showPrediction(found.predictions[0]);
    else showProblem(found.detail);
  } catch (error) {
    if (mine === latest) showProblem(`The service does not answer (${error.message}).`);
  } finally {
    if (mine === latest) answer.removeAttribute("aria-busy");
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
select.addEventListener("change", showBundle);

async function start() {
  try {
    bundles = (await (await fetch("bundles")).json()).bundles;
  } catch (error) {
    showProblem(`The service does not answer (${error.message}).`);
    return;
  }
  select.replaceChildren(...bundles.map(({ name }) => new Option(name)));
  showBundle();
}

start();
