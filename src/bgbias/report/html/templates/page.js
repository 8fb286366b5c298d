// Other backgrounds at a press, tables in the order of a column; paper has nothing to press, and shows all.
addEventListener("beforeprint", () => { for (const folded of document.querySelectorAll("details")) folded.open = true; });
for (const button of document.querySelectorAll("button.flip")) {
  const card = button.closest(".card");
  button.addEventListener("click", () => {
    const elsewhere = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", elsewhere);
    for (const part of card.querySelectorAll("[data-view]")) part.hidden = (part.dataset.view === "elsewhere") !== elsewhere;
  });
}
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th"), body = head.closest("table").tBodies[0];
    const column = [...head.parentElement.children].indexOf(head);
    const key = (row) => row.children[column].dataset.value ?? row.children[column].textContent.trim();
    const words = column === 0;  // names of classes, some of which may be numbers
    const up = head.getAttribute("aria-sort") === "descending" || (words && head.getAttribute("aria-sort") !== "ascending");
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const known = [], unknown = [];  // what is no number stays last
    for (const row of body.rows) (words || !Number.isNaN(parseFloat(key(row))) ? known : unknown).push(row);
    const apart = words ? (a, b) => a.localeCompare(b, "en", { numeric: true }) : (a, b) => a - b;
    known.sort((a, b) => (up ? 1 : -1) * apart(key(a), key(b)));
    body.append(...known, ...unknown);
  });
}
for (const field of document.querySelectorAll("input.filter")) {
  const table = document.getElementById(field.getAttribute("aria-controls"));
  field.addEventListener("input", () => {
    for (const row of table.tBodies[0].rows) row.hidden = !row.cells[0].dataset.value.toLowerCase().includes(field.value.toLowerCase());
  });
}
