// The editor of a workflow shows what its definition finds in the sample while it is
// edited. It sends the form that its buttons send without a script.
const form = document.getElementById("editor");
const trial = () => document.getElementById("trial");
let timer, running;

const show = (fresh, replace) => {
  if (replace) document.getElementById("definition").innerHTML = fresh.getElementById("definition").innerHTML;
  for (const at of document.querySelectorAll("[id^='problem:']")) {
    const now = fresh.getElementById(at.id);
    at.replaceChildren(...(now ? now.childNodes : []));
  }
  trial().innerHTML = fresh.getElementById("trial").innerHTML;
};

const send = async (button) => {
  clearTimeout(timer);
  running?.abort();
  const mine = (running = new AbortController());
  const data = new FormData(form);
  if (button?.name) data.set(button.name, button.value);
  if (!button) data.set("live", "yes");
  trial().classList.add("busy");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, signal: mine.signal });
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (fresh.getElementById("trial")) show(fresh, button?.name === "action");
    else {
      const said = document.createElement("p");
      said.className = "problem";
      said.textContent = fresh.querySelector("main p")?.textContent || "The trial failed.";
      trial().replaceChildren(said);
    }
  } catch (fault) {
    if (fault.name !== "AbortError") trial().textContent = "The server does not answer.";
  }
  if (running === mine) trial().classList.remove("busy");
};

const soon = () => {
  clearTimeout(timer);
  timer = setTimeout(send, 600);
};

form.addEventListener("input", soon);
form.addEventListener("submit", (event) => {
  if (event.submitter?.hasAttribute("formaction")) return;
  event.preventDefault();
  send(event.submitter || form);
});
if (form.elements.sample.value || form.elements.text.value) send();
