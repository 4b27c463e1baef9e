/**
 * A key: bytes as they are, and text as its UTF-8 bytes. Of a file that records a form of its keys
 * (`keys.form` and `keys.encoding` of its metadata) text is read in this form: hex digits, a number, …
 */
export type Key = string | Uint8Array;

/** Where a file comes from. Of a `Blob` and of a URL ranges are read; the others are read as a whole. */
export type From = ArrayBuffer | ArrayBufferView | Blob | Response | URL | string;

export interface Options {
  /** The secret of a keyed file: 16 bytes, or 32 hexadecimal digits. */
  key?: Uint8Array | string;
  /** What errors call the file; by default the name of a `File`. */
  name?: string;
  /** Up to how many bytes a file is held in memory as a whole; by default 16 MiB. */
  hold?: number;
  /** What makes requests, in place of the global `fetch`. */
  fetch?: typeof fetch;
  /** What requests are made with: credentials, headers. */
  request?: RequestInit;
  /** The WebAssembly module, where it is not to be loaded from beside this one. */
  wasm?: BufferSource | WebAssembly.Module | Response | URL | string | Promise<Response>;
}

/** Whole numbers above 2^53 are BigInts. */
export type Count = number | bigint;

export interface Segment {
  geometry: { layout: string; rows: number; blocks: Count; row_cells: Count };
  capacity: Count | null;
  adds: Count;
  offset: Count;
  pages: number;
  data_bytes: Count;
  table_bytes: Count;
  cells: Count;
  ones: Count;
  row_ones: Count[];
  fill: number;
  keys: { value: number; low: number; high: number };
  rate_now: number;
  rate_at_capacity: number | null;
  /** Of a sealed file: how its keys are spread over its pages. */
  sealed?: {
    bits_per_key: number | null;
    keys_per_page: number;
    fewest_keys: Count;
    most_keys: Count;
    /** Pages without keys, and pages that answer "maybe" for every key. */
    empty_pages: Count;
    maybe_pages: Count;
    /** The page that answers "maybe" most often, its keys and its rate. */
    worst_page: Count;
    worst_page_keys: Count;
    worst_page_rate: number;
  };
}

/** What a file says of itself: the names are those of `bloomfile inspect --json`, where it has them. */
export interface Inspection {
  format_version: number;
  uuid: string;
  file_bytes: Count;
  health: 'clean' | 'live' | 'crashed' | 'damaged';
  kind: 'plain' | 'counting' | 'sealed';
  when_full: string;
  hash: string;
  seed: Count;
  key_fingerprint: string | null;
  target_rate: number | null;
  capacity: Count | null;
  journal_bytes: Count;
  journal_records: Count;
  /** Whether a file that was not closed may have had adds that are in no record. */
  journal_full: boolean;
  generations: Count | null;
  rotate_after: Count | null;
  slot_damaged: boolean;
  sequence: Count;
  epoch: Count;
  mark: Count;
  recoveries: Count;
  /** Pages that recoveries kept although they could not be verified, and those that repairs gave up. */
  unverifiable_pages: Count;
  repaired_pages: Count;
  segments: Segment[];
  metadata: Record<string, string>;
  /** The false positive rate now, of all segments together. */
  rate_now: number;
  rate_at_capacity: number | null;
  /** Estimated number of keys, with its 95 % interval; no upper end when the filter is too full. */
  keys: number;
  keys_low: number;
  keys_high: number | null;
}

export interface Verification {
  health: Inspection['health'];
  kind: Inspection['kind'];
  pages: number;
  pages_exact: number;
  /** Pages are numbered through all segments, oldest first. */
  pages_damaged: number[];
  pages_unverifiable: number[];
  pages_busy: number[];
  /** Kept by recoveries that could not verify them: while it is not 0, the file is not sound. */
  pages_kept_unverified: Count;
  journal_records: Count;
  journal_missing: Count;
}

/** What a range of bytes is. */
export interface Explained {
  start: number;
  end: number;
  structure: string;
  field: string;
  value: string;
  note: string;
}

export interface PageInspection {
  segment: number;
  page: number;
  crc: number;
  ones: number;
  cells: number;
}

/** What `code` of an error can be. */
export type ErrorCode =
  | 'changed'
  | 'damaged'
  | 'damaged-delta'
  | 'freed'
  | 'invalid'
  | 'key-needed'
  | 'not-a-key'
  | 'not-a-bloomfile'
  | 'other-version'
  | 'read'
  | 'unsupported'
  | 'wrong-key';

export class BloomFileError extends Error {
  readonly code: ErrorCode;
  /** The page that is damaged, and its segment. */
  readonly segment?: number;
  readonly page?: number;
}

/** A file that keys are looked up in. Answers are those of the file as it was opened. */
export class BloomFile {
  private constructor();
  static from(from: From, options?: Options): Promise<BloomFile>;
  readonly length: number;
  /** Whether all of it is in memory, so that look-ups read nothing. */
  readonly held: boolean;
  /**
   * Whether a key may be in: false is certain. An error where its page is damaged, and for a text that
   * means no key of the file.
   */
  contains(key: Key): Promise<boolean>;
  containsMany(keys: Iterable<Key>): Promise<boolean[]>;
  /** 0 absent, 1 maybe, 2 for keys whose page is damaged, 3 for texts that mean no key of the file. */
  ask(keys: Iterable<Key>): Promise<Uint8Array>;
  inspect(): Inspection;
  /** Reads the whole file and checks every page; `progress` is told from 0 to 1. */
  verify(progress?: (share: number) => void): Promise<Verification>;
  /** What each byte is. All pages are read and checked, unless `data` is false. */
  explain(options?: { data?: boolean; progress?: (share: number) => void }): Promise<Explained[]>;
  /** What the page table says of pages of a segment, from `first` to before `end`. */
  pages(segment: number, first: number, end: number): Promise<PageInspection[]>;
  /** The same for many pages: of each, how many of its cells are set and how many there are. */
  fills(segment: number, first: number, end: number): Promise<Float64Array>;
  bytes(start: number, end: number): Promise<Uint8Array>;
  /** Lets go of the memory; the file is of no use after that. */
  free(): void;
}

/** What the bytes of a file are that cannot be opened, as far as that can be told. */
export function explain(from: From, options?: Options): Promise<Explained[]>;

/**
 * How two files relate, as `bloomfile compare --json` has it. All pages of both are read and checked, a
 * few at a time: the files may be larger than the memory. `progress` is told from 0 to 1.
 */
export function compare(a: From, b: From, options?: Options & { progress?: (share: number) => void }): Promise<Record<string, unknown>>;

/** Loads the WebAssembly module ahead of time. */
export function ready(module?: Options['wasm']): Promise<unknown>;
