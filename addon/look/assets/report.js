/* A report: the data is in the page. Its tables, and one conversation at a time. */

const data = JSON.parse(place("data").textContent);

/* The address names the conversation, so that a link in the table, and the way back, choose it. */
function choose(key) {
  const one = data.conversations[key];
  if (!one) return false;
  showOne(one);
  for (const link of place("conversations-table").querySelectorAll("tbody a")) {
    link.closest("tr").classList.toggle("current", link.hash === `#${key}`);
  }
  return true;
}

for (const [name, parts] of Object.entries(data.places)) place(name).replaceChildren(...draw(parts));
if (!choose(chosenKey())) choose(data.first);
addEventListener("hashchange", () => { if (choose(chosenKey())) goToOne(); });
