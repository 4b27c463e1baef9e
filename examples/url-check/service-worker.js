// Checks each navigation on this machine: a "no" of the filter passes at once, and only a "maybe" asks
// the database.
import { keysOf } from './canonical.js';
import { STORE, filter, refresh, state } from './filter.js';

const counts = { navigations: 0, passed: 0, asked: 0, stopped: 0 };
/** Where they are kept: a browser ends a worker that has nothing to do, and starts it for the next visit. */
const KEPT = new URL('./kept-counts.json', location.href);

/** Adds what was counted before this worker began. */
async function recall() {
  const kept = await (await caches.open(STORE)).match(KEPT);
  if (!kept) return;
  for (const [name, before] of Object.entries(await kept.json())) counts[name] += before;
}

/** One after the other, and none before what was kept is known. */
let keeping = recall().catch((error) => console.warn(String(error)));

function keep() {
  keeping = keeping
    .then(async () => (await caches.open(STORE)).put(KEPT, Response.json(counts)))
    .catch((error) => console.warn(String(error)));
  return keeping;
}

/** Whether a URL is listed: the filter tells who need not be asked for. */
async function isListed(url) {
  const keys = keysOf(url);
  let maybe = keys;
  try {
    const found = await (await filter()).ask(keys);
    // A damaged page cannot say "no".
    maybe = keys.filter((_, at) => found[at] !== 0);
  } catch (error) {
    // Without a filter every key is a "maybe": slower, and no less safe.
    console.warn(String(error));
  }
  if (maybe.length === 0) {
    counts.passed += 1;
    return false;
  }
  counts.asked += 1;
  const response = await fetch('./database', { method: 'POST', body: JSON.stringify(maybe) });
  if (!response.ok) throw new Error(`the database answers ${response.status}`);
  const { listed } = await response.json();
  if (listed) counts.stopped += 1;
  return listed;
}

/** What a navigation is to, or nothing if it is to this page itself. */
function target(request) {
  const url = new URL(request.url);
  const visited = url.pathname.endsWith('/visit') && url.searchParams.get('url');
  return request.mode === 'navigate' && visited ? visited : undefined;
}

addEventListener('install', (event) => {
  skipWaiting();
  event.waitUntil(filter().catch(() => {}));
});
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('fetch', (event) => {
  const url = new URL(event.request.url);
  if (url.pathname.endsWith('/counts')) {
    event.respondWith(keeping.then(() => Response.json({ ...counts, filter: state })));
    return;
  }
  if (url.pathname.endsWith('/refresh')) {
    event.respondWith(refresh().then((state) => Response.json(state)));
    return;
  }
  const visited = target(event.request);
  if (!visited) return;
  counts.navigations += 1;
  const told = isListed(visited);
  event.waitUntil(told.then(keep, keep));
  event.respondWith(told.then(
    (listed) => (listed ? fetch('./stopped.html') : fetch(event.request)),
    // What may be listed does not pass because the database could not be asked.
    () => fetch('./unknown.html'),
  ));
});
