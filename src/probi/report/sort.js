"use strict";
// Tables: a click on the head of a column sorts by it, the largest first; another click reverses the order.

function makeSortable(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    if (!("v" in table.tBodies[0].rows[0].cells[column].dataset)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const isDescending = head.getAttribute("aria-sort") !== "descending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      sortRows(table.tBodies[0], column, isDescending);
    });
  });
}

function sortRows(body, column, isDescending) {
  // Missing numbers come last in both orders.
  const missing = isDescending ? -Infinity : Infinity;
  const key = (row) => {
    const value = Number(row.cells[column].dataset.v);
    return Number.isNaN(value) ? missing : value;
  };
  body.append(...[...body.rows].sort((a, b) => (isDescending ? key(b) - key(a) : key(a) - key(b)) || 0));
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
