// Runs the theme's own search on the index of a site: the site and queries in, the pages for each query out, best first.
//
//     node search.js WORKER INDEX QUERY...
const { readFileSync } = require("node:fs");

const [worker, index, ...queries] = process.argv.slice(2);
let receive;
let answer;
globalThis.self = globalThis;
globalThis.addEventListener = (_, listener) => { receive = listener; };
globalThis.postMessage = (message) => answer(message.data);
// In the global scope, as browsers run the script of a worker.
(0, eval)(readFileSync(worker, "utf8"));

const ask = (type, data) => new Promise((resolve) => {
  answer = resolve;
  receive({ data: { type, data } });
});

(async () => {
  const { config, docs } = JSON.parse(readFileSync(index, "utf8"));
  await ask(0, { config, docs, options: {} });
  const found = {};
  for (const query of queries) {
    const { items } = await ask(2, query);
    found[query] = items.map(([page]) => page.location);
  }
  console.log(JSON.stringify(found));
})();
