// Shows the answers, and asks the kernel to open the form behind a part.
function render({ model, el }) {
  const page = document.createElement("div");
  page.className = "answers";
  const show = () => {
    page.innerHTML = model.get("html");
    if (!model.get("can_open")) return;
    for (const heading of page.querySelectorAll("section > h2")) {
      const title = heading.textContent;
      if (model.get("without_form").includes(title)) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "attrib-open";
      button.textContent = "Open";
      button.setAttribute("aria-label", `Open the form of: ${title}`);
      button.addEventListener("click", () => model.send({ open: title }));
      heading.append(button);
    }
  };
  const mark = () => page.setAttribute("aria-busy", String(model.get("is_stale")));
  model.on("change:html", show);
  model.on("change:can_open", show);
  model.on("change:is_stale", mark);
  el.append(page);
  show();
  mark();
  return () => {
    model.off("change:html", show);
    model.off("change:can_open", show);
    model.off("change:is_stale", mark);
  };
}

export default { render };
