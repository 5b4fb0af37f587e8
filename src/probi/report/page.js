"use strict";
// A click on the head of a column sorts by it, the largest first; another click turns the order.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const valueOf = (row, column) => Number(row.cells[column].dataset.v);
  heads.forEach((head, column) => {
    if (!("v" in table.tBodies[0].rows[0].cells[column].dataset)) return;
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const missing = falling ? -Infinity : Infinity;
      const key = (row) => { const v = valueOf(row, column); return Number.isNaN(v) ? missing : v; };
      const rows = [...table.tBodies[0].rows].sort((a, b) => (falling ? key(b) - key(a) : key(a) - key(b)) || 0);
      table.tBodies[0].append(...rows);
    });
  });
}
