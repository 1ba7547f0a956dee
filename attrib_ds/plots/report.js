// The table of a report: another model or measure, a search, an order. Names are set as text, never as HTML.
(() => {
  const data = JSON.parse(document.getElementById("numbers").textContent);
  const table = document.getElementById("table");
  const controls = Object.fromEntries(["model", "measure", "search"].map((id) => [id, document.getElementById(id)]));
  let order = { column: -1, descending: true };

  const node = (name, text, parent) => {
    const made = parent.appendChild(document.createElement(name));
    made.textContent = text;
    return made;
  };
  const shown = (number, decimals) => number === null ? "" : number
    .toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals })
    .replace(/^-(?=[0.,]*$)/, "").replace("-", "\u2212");

  // Each column: its title, its decimals, and one number per node.
  const columns = () => {
    const model = Number(controls.model.value), measure = Number(controls.measure.value);
    if (measure >= 0) return data.models.map((title, at) =>
      ({ title, decimals: data.measures[measure].decimals, numbers: data.numbers[at][measure] }));
    const own = data.measures.map(({ title, decimals }, at) =>
      ({ title, decimals, numbers: data.numbers[model][at] }));
    return own.concat(data.fixed);
  };

  const draw = () => {
    const all = columns(), words = controls.search.value.trim().toLowerCase();
    controls.model.disabled = Number(controls.measure.value) >= 0;
    const key = (row) => order.column < 0 ? data.names[row].toLowerCase() : all[order.column].numbers[row];
    const rows = data.names.map((_, row) => row)
      .filter((row) => data.names[row].toLowerCase().includes(words));
    if (order.column >= all.length) order = { column: 0, descending: true };
    if (order.column >= 0 || !order.descending) rows.sort((one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return (a < b ? -1 : a > b ? 1 : 0) * (order.descending ? -1 : 1);
    });
    table.replaceChildren();
    const head = node("tr", "", node("thead", "", table)), body = node("tbody", "", table);
    [{ title: data.title }, ...all].forEach(({ title }, place) => {
      const cell = node("th", "", head), button = node("button", title, cell), column = place - 1;
      cell.scope = "col";
      button.type = "button";
      if (order.column === column && (column >= 0 || !order.descending))
        cell.setAttribute("aria-sort", order.descending ? "descending" : "ascending");
      button.addEventListener("click", () => {
        const again = order.column === column;
        order = { column, descending: again ? !order.descending : column >= 0 };
        draw();
        table.querySelectorAll("button")[place].focus();
      });
    });
    rows.forEach((row) => {
      const line = node("tr", "", body), name = node("td", data.names[row], line);
      name.title = data.names[row];
      all.forEach(({ decimals, numbers }) => node("td", shown(numbers[row], decimals), line));
    });
  };
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
  Object.values(controls).forEach((control) => control.addEventListener("input", draw));
  document.querySelector(".tools").hidden = false;
  draw();
})();
