// What the tests of Node and of the browser share: the command, files that it made, golden files.
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../..', import.meta.url));

export const goldenFolder = `${root}tests/golden`;

const command = process.env.BLOOMFILE ?? ['debug', 'release'].map((kind) => `${process.env.CARGO_TARGET_DIR ?? `${root}target`}/${kind}/bloomfile`).find(existsSync);
if (!command) throw new Error('there is no bloomfile command: build it, or set BLOOMFILE');

export function bloomfile(...parameters) {
  return execFileSync(command, parameters, { maxBuffer: 1 << 28 }).toString();
}

/** A folder for files, which goes away at the end. */
export const folder = mkdtempSync(`${tmpdir()}/bloomfile-web-`);
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** A file of 1 GiB that holds one key, `sheep`. It goes away with the folder. */
export function large() {
  const path = `${folder}/large.bloom`;
  if (!existsSync(path)) {
    bloomfile('create', '-q', path, '-n', '850M', '-p', '0.01', '-l', 'line', '--journal', '0');
    execFileSync(command, ['add', '-q', path], { input: 'sheep\n' });
  }
  return path;
}

export const questions = (word, count) => Array.from({ length: count }, (_, number) => `${word}-${number}`);

/** What the README of the golden files says of each. */
export function goldenTable() {
  const lines = readFileSync(`${goldenFolder}/README.md`, 'utf8').split('\n');
  const rows = [];
  let columns;
  for (const line of lines) {
    const cells = line.split('|').slice(1, -1).map((cell) => cell.trim());
    if (cells.length === 0) columns = undefined;
    else if (cells[0] === 'file') columns = cells.includes('false positives') ? cells : undefined;
    else if (columns && cells.length === columns.length && !cells[0].startsWith('-')) {
      const cell = (name) => cells[columns.indexOf(name)];
      rows.push({ file: cell('file'), keys: Number(cell('keys')), falsePositives: Number(cell('false positives')), first: cell('first') });
    }
  }
  return rows;
}

/** Files whose keys were made of texts in some form: what each text is answered, and a key as bytes. */
export function forms() {
  const sums = ['5D41402ABC4B2A76B9719D911017C592', '7D793037A0760186574B0282F2F435E7'];
  const cases = [
    // That of the README of bloomfile.
    ['--hex', sums, { [sums[0]]: 1, [sums[1].toLowerCase()]: 1, '098f6bcd4621d373cade4e832627b4f6': 0, wolf: 3, '5D4': 3 }, Buffer.from(sums[0], 'hex')],
    ['--lower', ['Sheep', 'ÄRGER'], { SHEEP: 1, ärger: 1, WOLF: 0 }, Buffer.from('sheep')],
    ['--trim', ['  two words\t'], { ' two words  ': 1, 'two words': 1, twowords: 0 }, Buffer.from('two words')],
    ['--trim --hex', [' 00fF'], { '00ff ': 1, '00fe': 0, ' 0 0': 3 }, Buffer.from([0, 255])],
    ['--encoding le64', ['17', '-1', '258'], { 258: 1, '0017': 1, '-1': 1, '18446744073709551615': 1, 18: 0, '18446744073709551616': 3, 1.5: 3, '': 3 }, Buffer.from([2, 1, 0, 0, 0, 0, 0, 0])],
    ['--encoding be64', ['258'], { 258: 1, 259: 0, x: 3 }, Buffer.from([0, 0, 0, 0, 0, 0, 1, 2])],
    ['--encoding decimal', ['7'], { '+007': 1, 8: 0, '0x7': 3 }, Buffer.from('7')],
    ['--crlf', ['sheep\r'], { sheep: 1, wolf: 0 }, Buffer.from('sheep')],
  ];
  return cases.map(([options, list, answers, bytes], at) => {
    const path = `${folder}/form${at}.bloom`;
    if (!existsSync(path)) {
      writeFileSync(`${folder}/form${at}`, list.map((line) => `${line}\n`).join(''));
      bloomfile('build', '-q', path, `${folder}/form${at}`, '-n', '1000', '-p', '0.0000001', ...options.split(' '));
    }
    return { path, options, answers, bytes };
  });
}

/** The table of keys and their hashes. */
export function keyVectors() {
  const rows = readFileSync(`${root}docs/encoding.md`, 'utf8').matchAll(/^\| (\S.*?) \| (\w*) ?\| (\d+) \| (0x[0-9a-f]{16}) \|$/gm);
  return [...rows].map(([, key, encoding, seed, hash]) => ({ key: key.replaceAll('`', '').trim().replace('−', '-'), encoding, seed, hash: BigInt(hash) }));
}

/** A file that was copied while keys were added, of whose last page more is set than was. */
export async function unverifiable() {
  const path = `${folder}/unverifiable.bloom`;
  bloomfile('create', '-q', path, '-n', '20k', '-p', '0.01');
  const adding = spawn(command, ['add', '-q', path, '-'], { stdio: ['pipe', 'ignore', 'inherit'] });
  try {
    adding.stdin.write('sheep\n');
    for (const end = Date.now() + 20_000; ; await new Promise((go) => setTimeout(go, 20))) {
      if (JSON.parse(bloomfile('inspect', '--json', path)).journal_records > 0) break;
      if (Date.now() > end) throw new Error('the key is not added in time');
    }
    const bytes = readFileSync(path);
    const free = bytes.indexOf(0, bytes.length - 4096);
    bytes[free] = 0x7f;
    writeFileSync(`${folder}/doubtful.bloom`, bytes);
  } finally {
    const ended = new Promise((go) => adding.on('close', go));
    adding.stdin.end();
    await ended;
  }
  return `${folder}/doubtful.bloom`;
}
