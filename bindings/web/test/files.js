// What the tests of Node and of the browser share: the command, files that it made, golden files.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
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
