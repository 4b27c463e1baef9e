// The filter of this machine: kept between visits, and brought to the newest version by what changed.
import { BloomFile } from './bloomfile/index.js';
import { update } from './bloomfile/delta.js';

const SOURCE = new URL('./published/', location.href);
/** Where the bytes are kept. */
export const STORE = 'url-check';
const NAME = new URL('./kept.bloom', location.href);
/** How long a version is taken for the newest, in milliseconds. */
const FRESH = 15 * 60_000;

let current;
let bytes;
let looked = 0;
let looking;
/** What the page shows of it. */
export const state = { version: null, way: null, transferred: 0, problem: null };

async function open(found) {
  const file = await BloomFile.from(found);
  // A damaged one is replaced, not used.
  if ((await file.verify()).pages_damaged.length) throw new Error('the filter is damaged');
  return file;
}

/** What is kept from the last time, if it is of use. */
async function recall() {
  try {
    const kept = await (await caches.open(STORE)).match(NAME);
    if (!kept) return;
    const found = new Uint8Array(await kept.arrayBuffer());
    current = await open(found);
    bytes = found;
    state.version = Number(current.inspect().metadata.published?.split(' ')[1]);
    state.way = 'kept';
  } catch (error) {
    console.warn(String(error));
  }
}

async function look() {
  try {
    const found = await update(SOURCE, bytes);
    const { version, way, transferred, problems } = found;
    if (way !== 'current' || !current) {
      const next = await open(found.bytes);
      await (await caches.open(STORE)).put(NAME, new Response(found.bytes));
      // Those who were just given the old one may still ask it.
      const old = current;
      if (old) setTimeout(() => old.free(), 1000);
      [current, bytes] = [next, found.bytes];
    }
    // What deltas did not bring, the snapshot did; that it took one is worth knowing.
    Object.assign(state, { version, way, transferred, problem: problems.length ? String(problems[0].message) : null });
    looked = Date.now();
  } catch (error) {
    // The old one stays: it misses what is new, and stops what it knows.
    state.problem = String(error.message ?? error);
    console.warn(state.problem);
  }
  return state;
}

/** Looks for a newer version, once at a time. */
export function refresh() {
  looking ??= ready().then(look).finally(() => (looking = undefined));
  return looking;
}

let recalling;
const ready = () => (recalling ??= recall());

/** The filter; an error if there is none. A newer one is looked for on the side. */
export async function filter() {
  await ready();
  if (!current) await refresh();
  else if (Date.now() - looked > FRESH) refresh();
  if (!current) throw new Error(state.problem ?? 'there is no filter');
  return current;
}
