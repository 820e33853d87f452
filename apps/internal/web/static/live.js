// Elements with data-live are reloaded from the page when its event stream sends
// an event, at most twice a second.
const events = document.body.dataset.events;
if (events) {
  let waiting = false;
  const refresh = async () => {
    waiting = false;
    const answer = await fetch(location.href);
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const old of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(old.id);
      if (now && now.innerHTML !== old.innerHTML) old.innerHTML = now.innerHTML;
    }
  };
  let stream;
  const listen = () => {
    stream = new EventSource(events);
    stream.onmessage = () => {
      if (waiting) return;
      waiting = true;
      setTimeout(refresh, 500);
    };
  };
  listen();
  // A browser keeps pages for its back button, with their streams. It has six connections
  // to a server, so that the seventh page would wait for a minute.
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", e => {
    if (!e.persisted) return;
    listen();
    refresh();
  });
}
