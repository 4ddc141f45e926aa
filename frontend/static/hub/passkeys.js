// Passkeys: hands django-allauth's scripts what a form says in its attributes, and shows what the browser refuses.
(() => {
  const refused = {
    InvalidStateError: "This device has a passkey of this account already.",
    NotAllowedError: "Nothing was confirmed: it was cancelled, or this device has no passkey for this hub.",
    SecurityError: "The browser refuses: this page was opened under another name than the hub's own address.",
  };
  document.addEventListener("allauth.error", (event) => {
    event.preventDefault();
    const { name, message } = event.detail.exception;
    for (const place of document.querySelectorAll("[data-passkey-error]")) {
      place.textContent = refused[name] || message;
      place.hidden = false;
    }
  });
  for (const form of document.querySelectorAll("form[data-passkey]")) {
    const kind = form.dataset.passkey;
    const button = form.querySelector("[data-passkey-button]");
    const asked = {
      data: form.dataset.options ? JSON.parse(form.dataset.options) : {},
      ids: { [kind.replace("Form", "")]: button.id, credential: form.elements.credential.id, passwordless: "id_passwordless" },
    };
    window.allauth.webauthn.forms[kind](asked);
    for (const hidden of document.querySelectorAll("[data-passkey-part]")) hidden.hidden = false;
  }
})();
