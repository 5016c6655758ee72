"use strict";

// Tables are sorted by the buttons in their headers; without this script they keep their order.
const collator = new Intl.Collator("en", { numeric: true });

function readNumber(text) {
  return Number.parseFloat(text.replaceAll(",", ""));
}

function compareTexts(one, other, isNumber) {
  if (!one || !other) return Number(!one) - Number(!other);
  return isNumber ? readNumber(one) - readNumber(other) : collator.compare(one, other);
}

function sortTable(header, column) {
  const isDescending = header.getAttribute("aria-sort") === "ascending";
  const isNumber = header.classList.contains("n");
  for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
  const body = header.closest("table").tBodies[0];
  const keyed = [...body.rows].map((row) => [row.cells[column].textContent.trim(), row]);
  keyed.sort(([one], [other]) => {
    const order = compareTexts(one, other, isNumber);
    return isDescending && one && other ? -order : order; // empty cells stay last
  });
  body.append(...keyed.map(([, row]) => row));
}

function addSortButtons(table) {
  [...table.tHead.rows[0].cells].forEach((header, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...header.childNodes);
    button.addEventListener("click", () => sortTable(header, column));
    header.append(button);
  });
}

// The theme is the system's until the reader chooses one.
const THEMES = ["system", "light", "dark"];

function readTheme() {
  try {
    const found = localStorage.getItem("theme");
    return THEMES.includes(found) ? found : "system";
  } catch {
    return "system"; // a browser may keep nothing for pages from files
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // it holds for this page only
  }
}

setTheme(readTheme());
document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table.sortable").forEach(addSortButtons);
  const button = document.getElementById("theme");
  const name = () => {
    button.textContent = `Theme: ${document.documentElement.dataset.theme}`;
  };
  button.addEventListener("click", () => {
    const place = THEMES.indexOf(document.documentElement.dataset.theme);
    setTheme(THEMES[(place + 1) % THEMES.length]);
    name();
  });
  button.hidden = false;
  name();
});
