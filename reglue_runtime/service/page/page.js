"use strict";

const SHOWN_LABELS = 8;
const SHOWN_NUMBERS = 8;
const MOST_INPUTS = 16;
const MOST_PAST = 20;
const SHOWN_SIGNS = 60;
const THEMES = ["system", "light", "dark"];
const TITLES = { text: "Text", text_a: "First text", text_b: "Second text", text_history: "Earlier turns, one a line", sentences: "Sentences, one a line" };
const SPAN_TITLES = { text_a: "Question", text_b: "Passage" };
const PAIR = { text_a: "A woman plays the guitar.", text_b: "A woman makes music." };
const QUESTION = { text_a: "Where does the river rise?", text_b: "The river rises in the northern hills and flows to the sea." };
const REVIEW = { text: "The soup was tasty, but the room was small." };
const FLIGHT = { text: "book a flight from Oslo to Rome on Monday" };
/** A first input for each kind of model. */
const EXAMPLES = {
  pair_classification: PAIR,
  pair_regression: PAIR,
  ranking: QUESTION,
  span: QUESTION,
  intent_slots: FLIGHT,
  document: { sentences: "The soup was tasty.\nThe room was small.\nWe would come again." },
  dialogue: { ...FLIGHT, text_history: "where do you want to go" },
  tagging: { text: "Anna Smith flew from Oslo to Rome with Kestrel Airways ." },
};

const find = (id) => document.getElementById(id);
const form = find("form");
const select = find("bundle");
const inputs = find("inputs");
const answer = find("answer");
const past = [];
let bundles = [];
let latest = 0;
let isTyped = false;

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

function cut(text) {
  return text.length > SHOWN_SIGNS ? `${text.slice(0, SHOWN_SIGNS - 3)}...` : text;
}

function findBundle() {
  return bundles[select.selectedIndex];
}

function describe(bundle) {
  const needs = bundle.columns.length ? `; needs ${bundle.columns.join(", ")} too, so ask /predict` : "";
  const least = bundle.out_of_scope === null ? "" : `; below ${percent(bundle.abstain_below)} it answers ${bundle.out_of_scope}`;
  return `${bundle.kind.replaceAll("_", " ")}, ${bundle.variant}${least}${needs}`;
}

/** Add the fields of an input; those of the first have the names of their columns only. */
function addInput(values) {
  const bundle = findBundle();
  const titles = bundle.kind === "span" ? SPAN_TITLES : TITLES;
  const group = make("fieldset", "input", make("legend"));
  for (const name of bundle.texts) {
    const area = make("textarea");
    const isNeeded = name !== "text_history";
    Object.assign(area, { name, rows: ["text_b", "sentences"].includes(name) ? 3 : 2, required: isNeeded, value: values[name] ?? "" });
    group.append(make("div", "field", make("label", "", make("span", "title", titles[name]), area)));
  }
  const remove = make("button", "plain", "Remove");
  remove.type = "button";
  remove.addEventListener("click", () => {
    group.remove();
    numberInputs();
    inputs.querySelector("textarea").focus();
  });
  group.append(remove);
  inputs.append(group);
  numberInputs();
  return group;
}

function numberInputs() {
  const groups = [...inputs.children];
  groups.forEach((group, idx) => {
    group.querySelector("legend").textContent = groups.length > 1 ? `Input ${idx + 1}` : "Input";
    group.querySelector("button").hidden = groups.length === 1;
    group.querySelector("button").setAttribute("aria-label", `Remove input ${idx + 1}`);
  });
  find("add").disabled = groups.length >= MOST_INPUTS;
  showCode();
}

function readInputs() {
  return [...inputs.children].map((group) =>
    Object.fromEntries([...group.querySelectorAll("textarea")].map((area) => [area.name, area.value])),
  );
}

/** Return what /predict reads: the earlier turns are a list. */
function buildRequest() {
  const examples = readInputs().map((values) =>
    "text_history" in values
      ? { ...values, text_history: values.text_history.split("\n").filter((line) => line.trim()) }
      : values,
  );
  return { bundle: select.value, examples };
}

function showCode() {
  const address = new URL("predict", location.href).href;
  const request = buildRequest();
  const quoted = JSON.stringify(request).replaceAll("'", String.raw`'\''`);
  find("curl").textContent = `curl -s ${address} -H 'Content-Type: application/json' -d '${quoted}'`;
  find("python").textContent = [
    "import json",
    "from urllib.request import Request, urlopen",
    "",
    `body = ${JSON.stringify(request, null, 4)}`,
    `address = ${JSON.stringify(address)}`,
    'headers = {"Content-Type": "application/json"}',
    "request = Request(address, json.dumps(body).encode(), headers)",
    "with urlopen(request) as answer:",
    '    print(json.load(answer)["predictions"])',
  ].join("\n");
}

/** Show another model; it keeps what was typed and fits. An answer on its way is not shown. */
function showBundle() {
  latest += 1;
  answer.removeAttribute("aria-busy");
  const bundle = findBundle();
  const typed = isTyped ? readInputs() : [{}];
  find("about").textContent = describe(bundle);
  inputs.replaceChildren();
  for (const values of typed) addInput({ ...(EXAMPLES[bundle.kind] ?? REVIEW), ...values });
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

/** Return what says that the label was turned down, if it was. */
function makeRefusal(item) {
  if (item.label === undefined || item.label in item.scores) return [];
  const said = item.label || "No label";
  return [make("p", "card said", `${said}: the confidence is too low.`)];
}

function makePrediction(item) {
  const found = [];
  const add = (title, ...content) => found.push(make("h3", "", title), ...content);
  if (item.scores) {
    const bars = makeBars(item.scores, item.labels ?? [item.label]);
    add(item.slots ? "Intent" : item.labels ? "Labels" : "Label", ...makeRefusal(item), bars);
  }
  if (item.tags) add(item.sentences ? "Labels" : item.entities ? "Entities" : "Tags", makeTokens(item));
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
  if (item.embedding) {
    const first = item.embedding.slice(0, SHOWN_NUMBERS).map((number) => number.toFixed(3)).join(", ");
    const said = make("p", "said", `${first} ...`);
    add("Vector", make("div", "card", said, make("p", "quiet", `${item.embedding.length} numbers`)));
  }
  if (item.score !== undefined) add("Score", make("p", "card said", item.score.toFixed(3)));
  return found;
}

function showPredictions(values, predictions) {
  const parts = predictions.map((item, idx) => {
    const title = predictions.length > 1 ? `${idx + 1}. ${cut(Object.values(values[idx])[0])}` : "Prediction";
    return make("article", "", make("h2", "", title), ...makePrediction(item));
  });
  answer.replaceChildren(...parts);
}

function showProblem(text) {
  answer.replaceChildren(make("p", "card wrong", text));
}

function remember(entry) {
  past.unshift(entry);
  past.length = Math.min(past.length, MOST_PAST);
  find("past").hidden = false;
  find("history").replaceChildren(...past.map(makePast));
}

function makePast({ name, values, predictions }) {
  const more = values.length > 1 ? ` and ${values.length - 1} more` : "";
  const button = make("button", "plain", `${name}: ${cut(Object.values(values[0])[0])}${more}`);
  button.type = "button";
  button.addEventListener("click", () => {
    select.value = name;
    showBundle();
    inputs.replaceChildren();
    values.forEach(addInput);
    showPredictions(values, predictions);
  });
  return make("li", "", button);
}

async function predict() {
  const mine = ++latest;
  const name = select.value;
  const values = readInputs();
  answer.setAttribute("aria-busy", "true");
  try {
    const response = await fetch("predict", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(buildRequest()),
    });
    const found = await response.json();
    if (mine !== latest) return;
    if (response.ok) {
      showPredictions(values, found.predictions);
      remember({ name, values, predictions: found.predictions });
    } else showProblem(found.detail);
  } catch (error) {
    if (mine === latest) showProblem(`The service does not answer (${error.message}).`);
  } finally {
    if (mine === latest) answer.removeAttribute("aria-busy");
  }
}

async function copy(id) {
  const text = find(id).textContent;
  try {
    await navigator.clipboard.writeText(text);
    find("copied").textContent = `Copied ${id === "curl" ? "curl" : "Python"}.`;
  } catch {
    getSelection().selectAllChildren(find(id));
    find("copied").textContent = "Selected: copy it with Ctrl+C.";
  }
}

function changeTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? "system") + 1) % THEMES.length];
  root.dataset.theme = next;
  find("theme").textContent = `Theme: ${next}`;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
form.addEventListener("input", showCode);
inputs.addEventListener("input", () => {
  isTyped = true;
});
select.addEventListener("change", showBundle);
find("add").addEventListener("click", () => addInput({}).querySelector("textarea").focus());
find("theme").addEventListener("click", changeTheme);
for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", () => copy(button.dataset.copy));
}

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
