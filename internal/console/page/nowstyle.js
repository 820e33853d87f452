// The style sheet of the views of what happens now. It is loaded with the first of them.
const sheet = document.createElement("link");
sheet.rel = "stylesheet";
sheet.href = new URL("now.css", import.meta.url).href;
await new Promise((resolve) => {
  sheet.onload = sheet.onerror = resolve;
  document.head.append(sheet);
});
