// The form that uploads an environment: files are dropped anywhere on the page, sizes are checked, progress is shown.
// Without scripts it is an ordinary form.
(() => {
  const form = document.querySelector("[data-upload]");
  if (!form) return;
  const input = form.querySelector("input[type=file]");
  const zone = form.querySelector("[data-drop]");
  const progress = form.querySelector("progress");
  const most = Number(form.dataset.upload) * 1024 * 1024;

  const check = () => {
    const large = [...input.files].find((file) => file.size > most);
    input.setCustomValidity(large ? `${large.name} is larger than ${form.dataset.upload} MB.` : "");
  };
  input.addEventListener("change", check);

  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    zone.classList.add("drop--over");
  });
  document.addEventListener("dragleave", (event) => {
    if (!event.relatedTarget) zone.classList.remove("drop--over");
  });
  document.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    zone.classList.remove("drop--over");
    input.files = event.dataTransfer.files;
    check();
    input.reportValidity();
  });

  const say = (text) => {
    const notice = document.createElement("div");
    notice.className = "notice notice--bad";
    notice.setAttribute("role", "alert");
    notice.textContent = text;
    document.getElementById("results").replaceChildren(notice);
  };
  form.addEventListener("htmx:beforeRequest", () => {
    progress.hidden = false;
    document.getElementById("results").replaceChildren();
  });
  form.addEventListener("htmx:xhr:progress", (event) => {
    if (event.detail.lengthComputable && !progress.hidden) progress.value = event.detail.loaded / event.detail.total;
  });
  form.addEventListener("htmx:afterRequest", () => { progress.hidden = true; progress.value = 0; });
  form.addEventListener("htmx:responseError", (event) => {
    say(event.detail.xhr.status === 413 ? "These files are too large for this hub." : "The hub refused the upload. Reload the page and try again.");
  });
  form.addEventListener("htmx:sendError", () => say("The upload was cut off. Check the connection, then upload again."));
})();
