// Files that are brought to a newer version by what changed in them: the side of `bloomfile pull`, for
// browsers. What applies a delta is a WebAssembly module of its own, loaded when there is one.

import initialise, { apply, digest } from './bloomfile_delta.js';
import { BloomFile } from './index.js';
import { BloomFileError, bytesAtHand, call, failed, load } from './shared.js';

let loading;

/** Loads the WebAssembly module of deltas: from beside this file, unless it is given. */
export function ready(module) {
  loading ??= load(initialise, new URL('./bloomfile_delta_bg.wasm', import.meta.url), module).then(
    () => {},
    (error) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}

async function bytesOf(from) {
  const bytes = await bytesAtHand(from);
  if (bytes) return bytes;
  if (typeof Blob !== 'undefined' && from instanceof Blob) return new Uint8Array(await from.arrayBuffer());
  throw new TypeError('bytes are an ArrayBuffer, a view of one, a Blob or a Response');
}

/** Most bytes of a file that a delta makes, where no other limit is given. */
const MOST = 1 << 30;

/** The file that a delta makes of an old one, whole and verified; both stay as they are. */
export async function applyDelta(old, delta, options = {}) {
  const [before, change] = [await bytesOf(old), await bytesOf(delta)];
  await ready(options.wasm);
  return call(options.name, () => apply(change, before, options.most ?? MOST));
}

/** What stands in front of the segments of a snapshot. */
const HEAD = 12_288;
/** Most bytes of a manifest. */
const MANIFEST = 4 << 20;
/** How often a manifest is read again that names files which are gone, and how long apart. */
const TRIES = 4;
const PAUSE = 300;

async function sha256(bytes) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) throw failed('unsupported', 'this page has no means to check what it fetches: serve it by https, or from localhost');
  const hash = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

const isWhole = (value) => Number.isSafeInteger(value) && value >= 0;
const isHash = (text) => typeof text === 'string' && /^[0-9a-f]{64}$/.test(text);
const isItem = (it) => it && /^[\w-][\w.-]*$/.test(it.name) && isWhole(it.bytes) && isHash(it.sha256);

/** A manifest that came from anywhere; docs/publishing.md has its form. */
function manifestOf(bytes, name) {
  let it;
  try {
    it = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw failed('invalid', `is not a manifest: ${error.message}`, name);
  }
  if (it?.bloomfile_manifest !== 1) {
    throw failed('unsupported', `has form ${it?.bloomfile_manifest}, this program reads 1; use a newer bloomfile`, name);
  }
  const { versions, deltas } = it;
  let to = it.version;
  const sound = typeof it.series === 'string' && isWhole(to) && isItem(it.snapshot)
    && Array.isArray(versions) && versions[0]?.version === to
    && versions.every((version) => isWhole(version?.version) && isHash(version.head) && isHash(version.digest))
    && Array.isArray(deltas) && deltas.every((delta) => {
      const follows = isItem(delta) && isWhole(delta.from) && delta.to === to && delta.from < to;
      to = delta?.from;
      return follows;
    });
  if (!sound) throw failed('invalid', 'is no manifest that can be right', name);
  return it;
}

/** What was fetched from a publication, and how much of it. */
class Publication {
  constructor(url, options) {
    const text = String(url instanceof URL ? url : new URL(url, globalThis.location?.href));
    this.manifest = new URL(/\.json(\?|$)/.test(text) ? text : `${text.replace(/\/?$/, '/')}manifest.json`);
    this.fetch = options.fetch ?? fetch;
    this.init = options.request ?? {};
    this.transferred = 0;
  }

  /** A whole file, of which no more is read than it may have. */
  async get(url, most, cache) {
    let response;
    try {
      response = await this.fetch.call(globalThis, url, { cache, ...this.init });
    } catch (error) {
      throw failed('read', `cannot be fetched: ${error.message}`, String(url));
    }
    if (!response.ok) {
      await response.body?.cancel();
      const error = failed('read', `the server answers ${response.status}`, String(url));
      error.missing = response.status === 404 || response.status === 410;
      throw error;
    }
    const parts = [];
    let length = 0;
    const take = (part) => {
      length += part.length;
      this.transferred += part.length;
      parts.push(part);
      return length <= most;
    };
    // An empty answer may have no body, and one that stands in for an answer none that is read in parts.
    const reader = response.body?.getReader?.();
    let fits = reader ? true : take(new Uint8Array(await response.arrayBuffer()));
    while (reader && fits) {
      const part = await reader.read();
      if (part.done) break;
      fits = take(part.value);
    }
    if (!fits) {
      await reader?.cancel();
      throw failed('invalid', `has more than ${most} bytes`, String(url));
    }
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  }

  async current() {
    return manifestOf(await this.get(this.manifest, MANIFEST, 'no-cache'), String(this.manifest));
  }

  /** A file that the manifest names, which is the one that it means. */
  async item(item) {
    const url = new URL(item.name, this.manifest);
    const bytes = await this.get(url, item.bytes, 'no-store');
    if (bytes.length !== item.bytes || (await sha256(bytes)) !== item.sha256) {
      throw failed('damaged', 'is not what the manifest says: other bytes', String(url));
    }
    return bytes;
  }
}

/** Series and version of a file that came from a publication. */
async function publishedAs(bytes, options) {
  let file;
  try {
    file = await BloomFile.from(bytes, { wasm: options.fileWasm });
    const [series, version] = file.inspect().metadata.published?.split(' ') ?? [];
    return { series, version: Number(version) };
  } catch (error) {
    // A snapshot takes the place of what is no file any more.
    if (error instanceof BloomFileError) return {};
    throw error;
  } finally {
    file?.free();
  }
}

/** The deltas from a version to the current one, the first of them first. */
function chainOf(manifest, from) {
  const end = manifest.deltas.findIndex((delta) => delta.from === from);
  return end < 0 ? undefined : manifest.deltas.slice(0, end + 1).reverse();
}

/** Whether headers are those of the current version: they hold the checksums of all else. */
async function refuseOthers(bytes, manifest, name) {
  if ((await sha256(bytes.subarray(0, HEAD))) !== manifest.versions[0].head) {
    throw failed('other-version', `is not version ${manifest.version} as the manifest says`, name);
  }
}

async function bring(publication, manifest, old, options, problems) {
  const [current] = manifest.versions;
  const head = old && (await sha256(old.subarray(0, HEAD)));
  let from = manifest.versions.find((version) => version.head === head)?.version;
  if (head === current.head) return { way: 'current', from, deltas: 0, bytes: old };
  if (old && from === undefined) {
    const { series, version } = await publishedAs(old, options);
    if (series === manifest.series && version > manifest.version && !options.allowOlder) {
      throw failed('invalid', `version ${version} is here, and the source has only version ${manifest.version}`, String(publication.manifest));
    }
    await ready(options.wasm);
    try {
      const contents = digest(old);
      from = manifest.versions.find((version) => version.digest === contents)?.version;
    } catch {
      // A damaged file is no version.
    }
  }
  const chain = from === undefined ? undefined : chainOf(manifest, from);
  if (chain && chain.reduce((sum, delta) => sum + delta.bytes, 0) < manifest.snapshot.bytes) {
    try {
      // One on the way may be longer than both, if hardly ever: then the snapshot is taken.
      const most = Math.max(old.length, manifest.snapshot.bytes);
      const fetched = await Promise.all(chain.map((delta) => publication.item(delta)));
      await ready(options.wasm);
      const bytes = fetched.reduce((file, delta, at) => call(chain[at].name, () => apply(delta, file, most)), old);
      const name = chain.at(-1).name;
      await refuseOthers(bytes, manifest, name);
      if (call(name, () => digest(bytes)) !== current.digest) {
        throw failed('other-version', `does not lead to version ${manifest.version} as the manifest says`, name);
      }
      return { way: 'deltas', from, deltas: chain.length, bytes };
    } catch (error) {
      if (!(error instanceof BloomFileError) || error.missing) throw error;
      problems.push(error);
    }
  }
  const bytes = await publication.item(manifest.snapshot);
  await refuseOthers(bytes, manifest, manifest.snapshot.name);
  return { way: 'snapshot', from, deltas: 0, bytes };
}

/**
 * The current version of a published file: the old one, what deltas make of it, or the snapshot. The old
 * one is not touched, and stays of use if this fails.
 */
export async function update(url, old, options = {}) {
  const publication = new Publication(url, options);
  const before = old === undefined || old === null ? undefined : await bytesOf(old);
  const problems = [];
  for (let tries = 1; ; tries += 1) {
    const manifest = await publication.current();
    try {
      const found = await bring(publication, manifest, before, options, problems);
      return { ...found, series: manifest.series, version: manifest.version, transferred: publication.transferred, problems };
    } catch (error) {
      // It was removed after the manifest was read: there is a newer one.
      if (!error.missing || tries === TRIES) throw error;
      await new Promise((go) => setTimeout(go, PAUSE * tries));
    }
  }
}
