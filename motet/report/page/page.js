(function () {
  "use strict";

  // Sorting: a column by its values, or by its words; rows without a value come last.
  function value(row, column) {
    var cell = row.cells[column];
    return cell.hasAttribute("data-v") ? cell.getAttribute("data-v") : cell.textContent;
  }
  function order(a, b) {
    var numbers = [Number(a), Number(b)];
    if (a !== "" && b !== "" && !numbers.some(isNaN)) return numbers[0] - numbers[1];
    return a.localeCompare(b);
  }
  function sort(table, column, down) {
    var body = table.tBodies[0];
    var rows = Array.from(body.rows);
    var empty = function (row) { var v = value(row, column).trim(); return v === "" || v === "–"; };
    rows.sort(function (one, other) {
      if (empty(one) !== empty(other)) return empty(one) ? 1 : -1;
      var found = order(value(one, column), value(other, column));
      return down ? -found : found;
    });
    rows.forEach(function (row) { body.appendChild(row); });
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[table.tHead.rows.length - 1].cells);
    heads.forEach(function (head, column) {
      head.querySelector("button").addEventListener("click", function () {
        var now = head.getAttribute("aria-sort");
        var first = table.tBodies[0].rows[0];
        var counts = first && first.cells[column].classList.contains("n");
        var down = now ? now === "ascending" : Boolean(counts);
        heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        sort(table, column, down);
      });
    });
  });

  // A link to a section that is folded away opens it, and paper shows everything.
  function unfold() {
    var found = location.hash ? document.getElementById(location.hash.slice(1)) : null;
    var inside = found ? found.querySelector("details.fold") : null;
    if (inside) inside.open = true;
  }
  window.addEventListener("hashchange", unfold);
  document.querySelectorAll("nav a").forEach(function (link) { link.addEventListener("click", function () { setTimeout(unfold); }); });
  unfold();
  window.addEventListener("beforeprint", function () {
    document.querySelectorAll("details.fold").forEach(function (each) { each.open = true; });
  });

  // Legends: a button shows and hides its series.
  document.querySelectorAll(".legend button").forEach(function (button) {
    button.addEventListener("click", function () {
      var shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      var key = button.getAttribute("data-k");
      button.closest("figure").querySelectorAll("g[data-k]").forEach(function (group) {
        if (group.getAttribute("data-k") === key) group.classList.toggle("off", !shown);
      });
    });
  });

  // Tips: what the mark under the pointer or the finger says.
  var tip = document.getElementById("tip");
  function hide() { tip.hidden = true; }
  function show(event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (!mark) return hide();
    tip.textContent = mark.getAttribute("data-tip");
    tip.hidden = false;
    var box = tip.getBoundingClientRect();
    var x = event.clientX + 14, y = event.clientY + 14;
    if (x + box.width > innerWidth - 6) x = Math.max(6, event.clientX - box.width - 14);
    if (y + box.height > innerHeight - 6) y = Math.max(6, event.clientY - box.height - 14);
    tip.style.left = x + "px";
    tip.style.top = y + "px";
  }
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", function (event) { if (event.key === "Escape") hide(); });
})();
