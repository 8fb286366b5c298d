// Other backgrounds at a press, and tables in the order of a column.
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
    const down = head.getAttribute("aria-sort") !== "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = (row) => { const cell = row.children[column]; return cell.dataset.value ?? cell.textContent.trim(); };
    const apart = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(b) : a - b);
    body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * apart(key(a), key(b))));
  });
}
