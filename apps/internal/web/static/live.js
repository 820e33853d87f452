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
  new EventSource(events).onmessage = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(refresh, 500);
  };
}
