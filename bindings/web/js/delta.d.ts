import type { BloomFileError, Options } from './index.js';

/** Bytes of a file. */
export type Bytes = ArrayBuffer | ArrayBufferView | Blob | Response;

export interface DeltaOptions {
  /** The WebAssembly module of deltas, where it is not to be loaded from beside this one. */
  wasm?: Options['wasm'];
  /** What errors call the file. */
  name?: string;
  /**
   * Most bytes that the new file may have, 1 GiB unless it is given: a delta of a few hundred bytes can
   * lead to a file of any length.
   */
  most?: number;
}

export interface UpdateOptions extends Omit<DeltaOptions, 'most'> {
  /** What makes requests, in place of the global `fetch`. */
  fetch?: typeof fetch;
  /** What requests are made with: credentials, headers. */
  request?: RequestInit;
  /** Takes an older version than the one that is there. */
  allowOlder?: boolean;
  /** The WebAssembly module that reads files, where it is not to be loaded from beside this one. */
  fileWasm?: Options['wasm'];
}

export interface Update {
  /** The file: the old one if it is current. */
  bytes: Uint8Array;
  /** How it was come by. */
  way: 'current' | 'deltas' | 'snapshot';
  series: string;
  version: number;
  /** The version that the old file is, if it is one of those that deltas lead from. */
  from?: number;
  /** How many deltas were applied. */
  deltas: number;
  /** Bytes that were fetched, with the manifest. */
  transferred: number;
  /** Why deltas were not taken that should have been. */
  problems: BloomFileError[];
}

/** The file that a delta makes of an old one: verified, byte for byte that of `bloomfile apply`. */
export function applyDelta(old: Bytes, delta: Bytes, options?: DeltaOptions): Promise<Uint8Array>;

/**
 * The current version of what `bloomfile publish` put at an address: the old file if it is that, what
 * deltas make of it, or the snapshot. Everything is checked against the manifest. Deltas that cannot be
 * used are told in `problems`, and the snapshot is taken; what fails is an error, with the old file as it
 * was.
 */
export function update(url: URL | string, old?: Bytes | null, options?: UpdateOptions): Promise<Update>;

/** Loads the WebAssembly module of deltas ahead of time. */
export function ready(module?: Options['wasm']): Promise<void>;
