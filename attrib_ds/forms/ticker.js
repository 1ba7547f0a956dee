// Asks the kernel for new numbers while the page is visible, and says how old the shown ones are.
// The timer lives in the view: when the page is closed or shows something else, nobody asks any more.
function render({ model, el }) {
  const status = document.createElement("span");
  el.append(status);
  let since = Date.now();
  // Slow reads come less often than ticks. Seconds between the last two; undefined before the first.
  let gap;
  const show = (problem) => {
    const updated = model.get("updated");
    const age = (Date.now() - since) / 1000;
    const isLate = age > 3 * Math.max(model.get("seconds"), gap || 0);
    status.className = `attrib-ticker${isLate || problem ? " attrib-late" : updated ? " attrib-fresh" : ""}`;
    if (problem) status.textContent = problem;
    else if (!isLate) status.textContent = updated ? `Updated ${updated}` : "Reading …";
    else status.textContent = updated ? `No new numbers since ${updated}` : `No numbers yet after ${Math.round(age)} s`;
  };
  const tick = async () => {
    if (document.hidden) return;
    show();
    try {
      await model.send({});
    } catch {
      show("Python has ended: open the page again");
    }
  };
  const received = () => {
    // An outage is no slow read.
    gap = gap === undefined ? 0 : Math.min((Date.now() - since) / 1000, 60);
    since = Date.now();
    show();
  };
  const shown = () => {
    // Nothing was asked for while the page was hidden.
    if (!document.hidden) since = Date.now();
    tick();
  };
  model.on("change:updated", received);
  document.addEventListener("visibilitychange", shown);
  const timer = setInterval(tick, model.get("seconds") * 1000);
  tick();
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", shown);
    model.off("change:updated", received);
  };
}

export default { render };
