// Files of sets, asked and looked into from JavaScript. The work is done by the core of bloomfile,
// compiled to WebAssembly; here are conversions, and what reads ranges.

import initialise, { Job, Keys } from './bloomfile.js';
import { BloomFileError, bytesAtHand, call, failed, load, plain } from './shared.js';

export { BloomFileError };

let wasm;
let loading;

/** Loads the WebAssembly module: from beside this file, unless it is given. */
export function ready(module) {
  loading ??= load(initialise, new URL('./bloomfile_bg.wasm', import.meta.url), module).then(
    (exports) => (wasm = exports),
    (error) => {
      loading = undefined;
      throw error;
    },
  );
  return loading;
}

/** Bytes that are at hand. */
class MemorySource {
  constructor(bytes) {
    this.bytes = bytes;
    this.length = bytes.length;
  }

  async read(start, end) {
    return this.bytes.subarray(start, end);
  }
}

/** A file that the user chose, or any other blob: a slice of it is read at a time. */
class BlobSource {
  constructor(blob) {
    this.blob = blob;
    this.length = blob.size;
  }

  async read(start, end) {
    return new Uint8Array(await this.blob.slice(start, end).arrayBuffer());
  }
}

/** A file of the system, in Node. */
class FileSource {
  static async open(url) {
    const { open } = await import(/* @vite-ignore */ 'node:fs/promises');
    const source = new FileSource();
    source.handle = await open(url);
    try {
      source.length = (await source.handle.stat()).size;
    } catch (error) {
      source.close();
      throw error;
    }
    return source;
  }

  async read(start, end) {
    const { buffer, bytesRead } = await this.handle.read({
      buffer: new Uint8Array(end - start),
      position: start,
    });
    return buffer.subarray(0, bytesRead);
  }

  close() {
    this.handle.close().catch(() => {});
  }
}

/** Requests that are under way at the same time. */
const AT_ONCE = 6;

/** A file behind a web server that gives ranges. */
class UrlSource {
  static async open(url, options) {
    const source = new UrlSource();
    Object.assign(source, { url, fetch: options.fetch ?? fetch, init: options.request ?? {}, running: 0, waiting: [] });
    const response = await source.request(0, FIRST);
    if (response.status === 200) return new MemorySource(new Uint8Array(await response.arrayBuffer()));
    if (response.status !== 206) {
      await response.body?.cancel();
      throw failed('read', `the server answers ${response.status} ${response.statusText}`.trim(), String(url));
    }
    const range = response.headers.get('content-range');
    const total = /^bytes \d+-\d+\/(\d+)$/.exec(range ?? '')?.[1];
    if (!total) {
      await response.body?.cancel();
      // Of another origin a browser shows no more headers than the server lets it.
      const message = range === null
        ? 'the server gives a range, and no Content-Range that could be read; a server of another origin has to send “Access-Control-Expose-Headers: Content-Range, ETag”'
        : `the server gives a range of unknown length (Content-Range: ${range})`;
      throw failed('read', message, String(url));
    }
    source.length = Number(total);
    // What tells one version of the file from another.
    source.version = response.headers.get('etag') ?? response.headers.get('last-modified');
    source.first = new Uint8Array(await response.arrayBuffer());
    return source.first.length === source.length ? new MemorySource(source.first) : source;
  }

  /** What came with the first request serves opening alone: later on it is asked whether it still holds. */
  forget() {
    this.first = undefined;
  }

  request(start, end) {
    const headers = new Headers(this.init.headers);
    headers.set('range', `bytes=${start}-${end - 1}`);
    // A cache that knows parts of the file may hold those of another version.
    return this.fetch.call(globalThis, this.url, { cache: 'no-store', ...this.init, headers });
  }

  async read(start, end) {
    if (this.first && end <= this.first.length) return this.first.subarray(start, end);
    if (this.running >= AT_ONCE) await new Promise((go) => this.waiting.push(go));
    this.running += 1;
    try {
      const response = await this.request(start, end);
      // What went wrong in between says nothing of the file.
      if (![200, 206, 412, 416].includes(response.status)) {
        await response.body?.cancel();
        throw failed('read', `the server answers ${response.status} ${response.statusText}`.trim(), String(this.url));
      }
      const version = response.headers.get('etag') ?? response.headers.get('last-modified');
      const total = /\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1];
      if (response.status !== 206 || version !== this.version || (total && Number(total) !== this.length)) {
        await response.body?.cancel();
        throw failed('changed', 'was changed while it was read; open it again', String(this.url));
      }
      return new Uint8Array(await response.arrayBuffer());
    } finally {
      this.running -= 1;
      this.waiting.shift()?.();
    }
  }
}

/** What is fetched of a file first: as much as the core asks for first. */
const FIRST = 65_536;

/** Files up to this length are held in memory as a whole, where no other limit is given. */
const HELD = 16 << 20;

/** Keys that are looked up in one call of the core, where it holds all of a file. */
const AT_A_TIME = 512;

/** Characters of a key that is asked alone, and for which room is kept. */
const SHORT = 1024;

const encoder = new TextEncoder();

/** Brings a job to its end. */
async function finish(job, from, names, progress) {
  // Of two files that are compared, the one that is read.
  const one = (list) => (Array.isArray(list) ? list[job.of()] : list);
  for (;;) {
    const needed = call(one(names), () => job.step());
    if (needed.length === 0) return job;
    const [source, name] = [one(from), one(names)];
    const pending = [];
    for (let at = 0; at < needed.length; at += 2) {
      const [start, end] = [needed[at], needed[at + 1]];
      pending.push(source.read(start, end).then((bytes) => ({ start, bytes })));
    }
    for (const { start, bytes } of await Promise.all(pending)) {
      call(name, () => job.give(start, bytes));
    }
    progress?.(job.progress());
  }
}

/** Does a job and lets go of it. */
async function done(job, from, names, take, progress) {
  try {
    await finish(job, from, names, progress);
    return take(job);
  } finally {
    job.free();
  }
}

async function sourceOf(from, options) {
  const bytes = await bytesAtHand(from);
  if (bytes) return new MemorySource(bytes);
  if (typeof Blob !== 'undefined' && from instanceof Blob) return new BlobSource(from);
  if (from instanceof URL || typeof from === 'string') {
    const url = from instanceof URL ? from : new URL(from, globalThis.location?.href);
    return url.protocol === 'file:' ? FileSource.open(url) : UrlSource.open(url, options);
  }
  throw new TypeError('BloomFile.from takes an ArrayBuffer, a Blob, a Response or a URL');
}

function secretOf(key) {
  if (key === undefined || key === null) return new Uint8Array();
  if (key instanceof Uint8Array) return key;
  const digits = /^([0-9a-fA-F]{32})\s*$/.exec(key)?.[1];
  if (!digits) throw failed('wrong-key', 'a secret key is 32 hexadecimal digits or 16 bytes');
  return Uint8Array.from(digits.match(/../g), (pair) => parseInt(pair, 16));
}

const JOB = Symbol('job');

/** A file that keys are looked up in. */
export class BloomFile {
  #source;
  #file;
  #keys;
  #name;
  #held = false;
  /** Whether strings are keys as they stand: of other files they are read in their form. */
  #plain;

  static async from(from, options = {}) {
    await ready(options.wasm);
    const file = new BloomFile();
    file.#name = options.name ?? from?.name;
    try {
      file.#source = await sourceOf(from, options);
      const { length } = file.#source;
      const opening = call(file.#name, () => Job.open(length, secretOf(options.key)));
      file.#file = await done(opening, file.#source, file.#name, (job) => job.file());
      file.#plain = file.#file.is_plain();
      file.#keys = new Keys();
      file.#source.forget?.();
      if (file.#source instanceof MemorySource || length <= (options.hold ?? HELD)) {
        await done(file.#file.load(), file.#source, file.#name, () => {});
        file.#held = true;
      }
      return file;
    } catch (error) {
      // Neither a file of the system nor memory of the core stays behind.
      file.free();
      throw error;
    }
  }

  /** Length of the file in bytes. */
  get length() {
    return this.#source.length;
  }

  /** Whether all of it is in memory, so that look-ups read nothing. */
  get held() {
    return this.#held;
  }

  async contains(key) {
    this.#use();
    // Without what a list takes: arrays, and a second and third promise.
    if (this.#held && this.#plain && typeof key === 'string' && key.length <= SHORT) {
      const answer = this.#file.ask_one(this.#keys, writeOne(this.#keys, key));
      if (answer < 2) return answer === 1;
    }
    return (await this.containsMany([key]))[0];
  }

  async containsMany(keys) {
    const { answers, error } = await this.#answers(keys);
    if (error) throw new BloomFileError(plain(error), this.#name);
    const found = new Array(answers.length);
    for (let at = 0; at < answers.length; at += 1) found[at] = answers[at] === 1;
    return found;
  }

  /** As `containsMany`, with 2 where a damaged page keeps that from being told, 3 for what is no key. */
  async ask(keys) {
    return (await this.#answers(keys)).answers;
  }

  async #answers(asked) {
    this.#use();
    const list = Array.isArray(asked) ? asked : Array.from(asked);
    if (list.length === 0) return { answers: new Uint8Array() };
    const keys = this.#keys;
    const answers = new Uint8Array(list.length);
    let error;
    // Taken at once: the next call writes there again.
    const take = (start, count, found) => {
      answers.set(new Uint8Array(wasm.memory.buffer, keys.answers(), count), start);
      error ??= found ?? undefined;
    };
    if (this.#held) {
      // As many at a time as stay in the processor's cache.
      for (let start = 0; start < list.length; start += AT_A_TIME) {
        const part = list.length <= AT_A_TIME ? list : list.slice(start, start + AT_A_TIME);
        this.#write(part);
        take(start, part.length, call(this.#name, () => this.#file.ask_loaded(keys)));
      }
      return { answers, error };
    }
    // Larger ones than that share the pages that they read.
    this.#write(list);
    const job = call(this.#name, () => this.#file.ask(keys));
    await done(job, this.#source, this.#name, (job) => {
      this.#use();
      take(0, list.length, job.answer(keys));
    });
    return { answers, error };
  }

  /** Writes keys, and has those that are strings read in the form of the file. */
  #write(list) {
    write(this.#keys, list);
    if (this.#plain) return;
    const texts = Uint8Array.from(list, (key) => typeof key === 'string');
    call(this.#name, () => this.#file.read(this.#keys, texts));
  }

  inspect() {
    this.#use();
    return plain(this.#file.inspect());
  }

  async verify(progress) {
    this.#use();
    return done(this.#file.verify(), this.#source, this.#name, (job) => plain(job.result()), progress);
  }

  async explain(options = {}) {
    this.#use();
    const { length } = this.#source;
    if (options.data === false) {
      return done(Job.explain(length), this.#source, this.#name, (job) => plain(job.result()));
    }
    const verifying = await finish(this.#file.verify(), this.#source, this.#name, options.progress);
    try {
      const job = verifying.explain_verified(length);
      return await done(job, this.#source, this.#name, (job) => plain(job.result()));
    } finally {
      verifying.free();
    }
  }

  /** What the page table says of some pages of a segment. */
  async pages(segment, first, end) {
    this.#use();
    const job = call(this.#name, () => this.#file.pages(segment, first, end));
    return done(job, this.#source, this.#name, (job) => plain(job.result()));
  }

  /** The same, with of each page the cells that are set and those that there are alone. */
  async fills(segment, first, end) {
    this.#use();
    const job = call(this.#name, () => this.#file.pages(segment, first, end));
    return done(job, this.#source, this.#name, (job) => job.fills());
  }

  /** What a job of the core gives, for the page, which knows its jobs. */
  async [JOB](make, take, progress) {
    this.#use();
    return done(call(this.#name, () => make(this.#file)), this.#source, this.#name, take, progress);
  }

  /** Some bytes of the file, as they are. */
  async bytes(start, end) {
    this.#use();
    return this.#source.read(start, Math.min(end, this.#source.length));
  }

  free() {
    this.#file?.free();
    this.#keys?.free();
    this.#source?.close?.();
    this.#file = this.#keys = this.#source = undefined;
  }

  #use() {
    if (!this.#file) throw failed('freed', 'this file was freed', this.#name);
  }
}

/** Room for one key, in the memory of the core. */
let single;

/** Writes one key, without making anything for it that lasts; how many bytes it is. */
function writeOne(keys, key) {
  const place = keys.reserve(3 * SHORT);
  if (single?.buffer !== wasm.memory.buffer || single.byteOffset !== place) {
    single = new Uint8Array(wasm.memory.buffer, place, 3 * SHORT);
  }
  // Most are ASCII, which takes no call.
  for (let at = 0; at < key.length; at += 1) {
    const code = key.charCodeAt(at);
    if (code > 127) return encoder.encodeInto(key, single).written;
    single[at] = code;
  }
  return key.length;
}

/** Writes keys to where the core takes them from. */
function write(keys, list) {
  const text = list.every((key) => typeof key === 'string');
  if (text) {
    // All in one: a call for each would take longer than the look-ups.
    const joined = list.join('\0');
    const room = joined.length * 3;
    const place = keys.reserve(room);
    const { written } = encoder.encodeInto(joined, new Uint8Array(wasm.memory.buffer, place, room));
    if (written === joined.length) {
      // A byte for each character: where the keys end is known.
      const ends = new Uint32Array(list.length);
      let end = -1;
      for (let at = 0; at < list.length; at += 1) ends[at] = end += list[at].length + 1;
      return keys.cut(ends);
    }
    if (keys.split(written, list.length)) return;
  }
  const bytes = list.map((key) => {
    if (typeof key === 'string') return encoder.encode(key);
    if (key instanceof Uint8Array) return key;
    throw new TypeError('a key is a string or a Uint8Array');
  });
  const ends = new Uint32Array(bytes.length);
  let end = -1;
  bytes.forEach((key, at) => (ends[at] = end += key.length + 1));
  const place = keys.reserve(end);
  const room = new Uint8Array(wasm.memory.buffer, place, end);
  bytes.forEach((key, at) => room.set(key, ends[at] - key.length));
  keys.cut(ends);
}

/** Tells what the bytes of a file are that cannot be opened, as far as it can be told. */
export async function explain(from, options = {}) {
  await ready(options.wasm);
  const source = await sourceOf(from, options);
  const name = options.name ?? from?.name;
  try {
    return await done(Job.explain(source.length), source, name, (job) => plain(job.result()));
  } finally {
    source.close?.();
  }
}

/** Tells how two files relate: their pages are read a few at a time. */
export async function compare(a, b, options = {}) {
  await ready(options.wasm);
  const sources = [];
  const files = [];
  const names = [a, b].map((from) => from?.name ?? options.name);
  try {
    for (const [at, from] of [a, b].entries()) {
      const source = await sourceOf(from, options);
      sources.push(source);
      const name = names[at];
      const opening = call(name, () => Job.open(source.length, new Uint8Array()));
      files.push(await done(opening, source, name, (job) => job.file()));
      source.forget?.();
    }
    const job = call(options.name, () => files[0].compare(files[1]));
    return await done(job, sources, names, (job) => plain(job.result()), options.progress);
  } finally {
    files.forEach((file) => file.free());
    sources.forEach((source) => source.close?.());
  }
}
