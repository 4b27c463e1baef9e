// What both modules of the package have in common: errors, bytes that are at hand, and how a WebAssembly
// module is loaded.

/** What goes wrong: `code` says what kind of thing, the message what it is and what to do. */
export class BloomFileError extends Error {
  constructor({ code, message, segment, page }, name) {
    super(name ? `${name}: ${message}` : message);
    this.name = 'BloomFileError';
    this.code = code;
    if (page !== null && page !== undefined) {
      this.segment = segment;
      this.page = page;
    }
  }
}

/** An error that the package itself comes to. */
export function failed(code, message, name) {
  return new BloomFileError({ code, message }, name);
}

/** Numbers that JavaScript holds exactly become numbers; larger ones stay what they are. */
export function plain(value) {
  if (typeof value === 'bigint') {
    const small = value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER;
    return small ? Number(value) : value;
  }
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === 'object') {
    return Object.fromEntries(Object.entries(value).map(([key, held]) => [key, plain(held)]));
  }
  return value;
}

/** Calls the core, whose errors become those of the package. */
export function call(name, work) {
  try {
    return work();
  } catch (thrown) {
    if (thrown instanceof Error) throw thrown;
    throw new BloomFileError(plain(thrown), name);
  }
}

/** Loads a WebAssembly module: from beside the code, unless it is given. */
export async function load(initialise, beside, module) {
  if (module === undefined && beside.protocol === 'file:' && globalThis.process?.versions?.node) {
    const { readFile } = await import(/* @vite-ignore */ 'node:fs/promises');
    module = await readFile(beside);
  }
  return initialise({ module_or_path: module ?? beside });
}

/** The bytes of what is in memory, or of a server's answer; `undefined` of anything else. */
export async function bytesAtHand(from) {
  if (from instanceof ArrayBuffer) return new Uint8Array(from);
  if (ArrayBuffer.isView(from)) return new Uint8Array(from.buffer, from.byteOffset, from.byteLength);
  if (typeof Response !== 'undefined' && from instanceof Response) {
    if (!from.ok) throw failed('read', `the server answers ${from.status}`, from.url);
    return new Uint8Array(await from.arrayBuffer());
  }
  return undefined;
}
