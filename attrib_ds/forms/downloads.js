// Buttons that ask the kernel for a file and save it; the kernel makes the file when a button is pressed.
function render({ model, el }) {
  const row = document.createElement("div");
  row.className = "attrib-downloads";
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  for (const label of model.get("labels")) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => {
      status.textContent = "Preparing …";
      model.send({ label });
    });
    row.append(button);
  }
  row.append(status);
  const received = (message, buffers) => {
    if (message.problem) {
      status.textContent = message.problem;
      return;
    }
    const address = URL.createObjectURL(new Blob([buffers[0]], { type: message.type }));
    // Some notebooks save a link only if it is part of the page.
    const link = Object.assign(document.createElement("a"), { href: address, download: message.name });
    link.hidden = true;
    row.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
    status.textContent = `Saved ${message.name}`;
  };
  model.on("msg:custom", received);
  el.append(row);
  return () => model.off("msg:custom", received);
}

export default { render };
