// The package in Node: answers, errors, little memory, and files that change under way.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, openAsBlob, readFileSync, readdirSync, readlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import test from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

import { BloomFile, BloomFileError, compare, explain } from '../pkg/index.js';
import { bloomfile, folder, forms, goldenFolder, goldenTable, keyVectors, large, questions } from './files.js';

/** The CRC-32 of bytes, which gzip writes at its end. */
const crc32 = (bytes) => gzipSync(bytes).readUInt32LE(gzipSync(bytes).length - 8);
const golden = (name) => readFileSync(`${goldenFolder}/${name}.bloom`);
const key = '676f6c64656e2074657374206b65792e';
const from = (name, source, options) => BloomFile.from(source, name === 'keyed' ? { key, ...options } : options);
const made = (name) => `${folder}/${name}.bloom`;
const pages = questions('https://example.org/page', 100_000);

test.before(() => {
  const lists = { agree: pages.filter((_, at) => at % 2 === 0), other: questions('other', 50_000) };
  for (const [name, keys] of Object.entries(lists)) {
    writeFileSync(`${folder}/${name}`, keys.join('\n'));
    bloomfile('build', '-q', made(name), `${folder}/${name}`, '-n', '50k', '-p', '0.01');
  }
});

test('golden files give the answers that their README lists', async () => {
  const table = goldenTable();
  assert.ok(table.length >= 17, String(table.length));
  for (const { file, keys, falsePositives, first } of table) {
    // In memory, and page by page.
    for (const source of [golden(file), new Blob([golden(file)])]) {
      const opened = await from(file, source, { hold: 0 });
      assert.ok((await opened.containsMany(questions('key', keys))).every(Boolean), file);
      const absent = questions('absent', 1000);
      const answers = await opened.containsMany(absent);
      const found = absent.filter((_, at) => answers[at]);
      assert.equal(found.length, falsePositives, file);
      assert.equal(found[0] ?? 'none', first, file);
      opened.free();
    }
  }
});

test('reports are those of the command', async () => {
  for (const { file } of goldenTable()) {
    const opened = await from(file, golden(file));
    const told = JSON.parse(bloomfile('inspect', '--json', `${goldenFolder}/${file}.bloom`));
    const found = opened.inspect();
    let same = 0;
    for (const name of ['uuid', 'file_bytes', 'kind', 'health', 'mark', 'sequence', 'epoch', 'rate_now']) {
      if (!(name in told)) continue;
      assert.deepEqual(found[name], told[name], `${file}: ${name}`);
      same += 1;
    }
    assert.ok(same >= 5, `${same}`);
    assert.equal(found.segments.length, told.segments.length);
    const checked = await opened.verify();
    assert.equal(checked.pages_damaged.length, 0);
    assert.equal(checked.pages, checked.pages_exact + checked.pages_unverifiable.length);
    const ranges = await opened.explain();
    assert.equal(ranges[0].field, 'magic');
    assert.equal(ranges.at(-1).end, opened.length);
    ranges.reduce((end, range) => (assert.equal(range.start, end), range.end), 0);
    opened.free();
  }
});

test('100,000 keys agree with the command', async () => {
  writeFileSync(`${folder}/asked`, pages.join('\n'));
  const told = new Set(bloomfile('check', made('agree'), '--from', `${folder}/asked`).trim().split('\n'));
  assert.ok(told.size >= 50_000 && told.size < 52_000, String(told.size));
  for (const source of [readFileSync(made('agree')), await openAsBlob(made('agree')), pathToFileURL(made('agree'))]) {
    const file = await BloomFile.from(source, { hold: 0 });
    const found = await file.containsMany(pages);
    pages.forEach((key, at) => assert.equal(found[at], told.has(key), key));
    file.free();
  }
});

test('keys are strings or bytes', async () => {
  const file = await BloomFile.from(golden('line'));
  const bytes = new TextEncoder().encode('key-7');
  assert.deepEqual(await file.containsMany(['key-7', bytes, 'absent-1', new Uint8Array()]), [true, true, false, false]);
  assert.deepEqual(await file.containsMany(['a\0b', 'key-1', '']), [false, true, false]);
  assert.deepEqual(await file.containsMany([]), []);
  assert.deepEqual(await file.containsMany(new Set(['key-3'])), [true]);
  await assert.rejects(file.contains(7), TypeError);
  // One that is asked alone goes another way.
  for (const [key, found] of [['key-7', true], ['absent-1', false], ['a\0b', false], ['', false]]) assert.equal(await file.contains(key), found, key);
  file.free();
  await assert.rejects(file.contains('key-7'), { code: 'freed' });
  const others = ['bücher', '日本語 and more', '😀', 'x'.repeat(1023), `${'x'.repeat(1023)}é`, '日'.repeat(1024), 'y'.repeat(5000)];
  writeFileSync(`${folder}/long`, others.join('\n'));
  bloomfile('build', '-q', made('long'), `${folder}/long`, '-n', '100', '-p', '0.000001');
  for (const hold of [0, undefined]) {
    const [long, two] = await Promise.all([BloomFile.from(await openAsBlob(made('long')), { hold }), BloomFile.from(golden('line'))]);
    for (const key of others) {
      assert.equal(await long.contains(key), true, key);
      assert.equal(await long.contains(`${key}z`), false, key);
      // What stands in the memory of the core is that of each file.
      assert.equal(await two.contains('key-7'), true);
    }
    long.free();
    two.free();
  }
});

test('texts are read in the form that the file records', async () => {
  for (const { path, options, answers, bytes } of forms()) {
    // In memory, and page by page.
    for (const hold of [0, undefined]) {
      const file = await BloomFile.from(await openAsBlob(path), { hold });
      const texts = Object.keys(answers);
      const first = texts.find((text) => answers[text] === 1);
      assert.deepEqual([...await file.ask(texts)], Object.values(answers), options);
      // Bytes are keys as they are, alone and among texts.
      assert.deepEqual([...await file.ask([first, bytes, first])], [1, 1, 1], options);
      assert.equal(await file.contains(bytes), true, options);
      for (const [text, answer] of Object.entries(answers)) {
        if (answer < 2) assert.equal(await file.contains(text), answer === 1, `${options}: ${text}`);
        else await assert.rejects(file.contains(text), { code: 'not-a-key' }, `${options}: ${text}`);
      }
      const refused = texts.find((text) => answers[text] === 3);
      if (refused !== undefined) {
        await assert.rejects(file.containsMany([first, refused]), (error) => {
          assert.equal(error.code, 'not-a-key');
          assert.ok(error.message.startsWith(`“${refused}” is no key of this file, whose keys are `), error.message);
          return true;
        });
        // What one call refuses is nothing to another that is under way.
        const [mixed, sound] = await Promise.all([file.ask([refused, first]), file.ask([first, first])]);
        assert.deepEqual([[...mixed], [...sound]], [[3, 1], [1, 1]]);
      }
      // More than are asked at a time.
      const many = Array.from({ length: 2000 }, (_, at) => texts[at % texts.length]);
      assert.deepEqual([...await file.ask(many)], many.map((text) => answers[text]));
      file.free();
    }
  }
});

test('a form that is not known takes bytes alone', async () => {
  const path = made('unknown-form');
  bloomfile('build', '-q', path, `${folder}/agree`, '-n', '50k', '-p', '0.01', '--meta', 'keys.fork=rot13');
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf('keys.fork'); at >= 0; at = bytes.indexOf('keys.fork', at + 1)) {
    bytes.write('keys.form', at);
    // The checksum of a slot is in its last bytes.
    const slot = at - (at % 4096);
    bytes.writeUInt32LE(crc32(bytes.subarray(slot, slot + 4092)), slot + 4092);
  }
  const file = await BloomFile.from(bytes);
  assert.equal(file.inspect().metadata['keys.form'], 'rot13');
  await assert.rejects(file.contains(pages[0]), { code: 'unsupported', message: /keys\.form cannot be rot13: no such form of keys is known; .*, or give keys as bytes$/ });
  assert.equal(await file.contains(new TextEncoder().encode(pages[0])), true);
  file.free();
});

test('the vectors of docs/encoding.md: each key falls where its hash says', async () => {
  const vectors = keyVectors();
  assert.equal(vectors.length, 8);
  const empty = new Map();
  for (const { key, encoding, seed, hash } of vectors) {
    const parameters = ['--seed', seed, ...(encoding ? ['--encoding', encoding] : [])];
    const path = made(`vectors${parameters.join('')}`);
    if (!empty.has(path)) bloomfile('create', '-q', path, '-n', '10M', '-p', '0.01', '-l', 'line', '--journal', '0', ...parameters);
    empty.set(path, readFileSync(path));
    const bytes = Buffer.from(empty.get(path));
    const probe = await BloomFile.from(new Blob([bytes]), { hold: 0 });
    const [segment] = probe.inspect().segments;
    probe.free();
    const blocks = BigInt(segment.geometry.blocks);
    assert.ok(segment.pages > 2000, String(segment.pages));
    // The block of a hash is its share of the blocks, and a line is a block of 64 bytes.
    const page = Number(((hash * blocks) >> 64n) / 64n);
    const start = segment.offset + segment.table_bytes + 4096 * page;
    bytes[start + 1] ^= 1;
    const file = await BloomFile.from(new Blob([bytes]), { hold: 0 });
    assert.deepEqual([...await file.ask([key])], [2], `${key} ${encoding} ${seed}`);
    file.free();
    const held = await BloomFile.from(bytes);
    assert.deepEqual([...await held.ask([key])], [2], `${key} ${encoding} ${seed}`);
    held.free();
  }
});

test('a damaged page is an error where it is asked', async () => {
  const bytes = readFileSync(made('agree'));
  bytes[bytes.length - 5 * 4096] ^= 1;
  for (const source of [bytes, new Blob([bytes])]) {
    const file = await BloomFile.from(source, { hold: 0, name: 'agree.bloom' });
    const keys = pages.slice(0, 4000);
    const found = await file.ask(keys);
    const damaged = keys.filter((_, at) => found[at] === 2);
    assert.ok(damaged.length > 10 && damaged.length < 1000, String(damaged.length));
    await assert.rejects(file.contains(damaged[0]), (error) => {
      assert.ok(error instanceof BloomFileError);
      assert.match(error.message, /^agree\.bloom: 1 data page is damaged \(first: page \d+ of segment 0/);
      assert.equal(error.code, 'damaged');
      assert.equal(typeof error.page, 'number');
      return true;
    });
    assert.equal(await file.contains(keys.find((_, at) => found[at] === 1)), true);
    const { pages_damaged: list } = await file.verify();
    assert.equal(list.length, 1);
    assert.ok((await file.explain()).some((range) => range.note.startsWith('wrong')));
    file.free();
  }
});

test('errors say what is wrong', async () => {
  const code = (source, options) => BloomFile.from(source, options).then(() => 'none', (error) => error.code);
  assert.equal(await code(new Uint8Array()), 'not-a-bloomfile');
  assert.equal(await code(new TextEncoder().encode('%PDF-1.7 something else')), 'not-a-bloomfile');
  assert.equal(await code(golden('line').subarray(0, 20_000)), 'damaged');
  assert.equal(await code(golden('line'), { key }), 'wrong-key');
  assert.equal(await code(golden('keyed'), { key: '00112233445566778899aabbccddeeff' }), 'wrong-key');
  assert.equal(await code(golden('keyed'), { key: 'secret' }), 'wrong-key');
  const locked = await BloomFile.from(golden('keyed'));
  assert.ok(locked.inspect().key_fingerprint);
  await assert.rejects(locked.contains('key-0'), { code: 'key-needed' });
  await assert.rejects(BloomFile.from(7), TypeError);
  const both = golden('line');
  both[4096 + 9] ^= 1;
  both[8192 + 9] ^= 1;
  assert.equal(await code(both), 'damaged');
  assert.ok((await explain(both)).some((range) => range.structure.includes('damaged')));
});

/** A server of ranges of what `state.bytes` holds. */
async function serve(state, work) {
  const server = createServer((request, response) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const { bytes } = state;
    if (state.status) return response.writeHead(state.status).end('not now');
    if (state.tag) response.setHeader('etag', state.tag);
    if (!range || state.whole) {
      response.end(bytes);
      return;
    }
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, bytes.length)];
    state.sent = (state.sent ?? 0) + end - start;
    response.writeHead(206, state.bare ? {} : { 'content-range': `bytes ${start}-${end - 1}/${state.length ?? bytes.length}` });
    response.end(bytes.subarray(start, end));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  try {
    await work(new URL(`http://127.0.0.1:${server.address().port}/keys.bloom`));
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('from a web server, in ranges', async () => {
  const state = { bytes: readFileSync(made('agree')), tag: '"1"' };
  await serve(state, async (url) => {
    const file = await BloomFile.from(url, { hold: 0 });
    assert.ok(state.sent <= 65_536, String(state.sent));
    const { sent } = state;
    assert.equal(await file.contains(pages[0]), true);
    assert.ok(state.sent - sent <= 3 * 4096, String(state.sent - sent));
    assert.equal(await file.contains('no such key'), false);
    file.free();
    // A response is read as a whole.
    const whole = await BloomFile.from(await fetch(url));
    assert.equal(await whole.contains(pages[0]), true);
    whole.free();
    await assert.rejects(BloomFile.from(new URL('http://127.0.0.1:9/')), Error);
  });
  await serve({ bytes: state.bytes, whole: true }, async (url) => {
    const file = await BloomFile.from(url);
    assert.equal(file.held, true);
    file.free();
  });
});

test('what a web server does not give is told', async () => {
  const state = { bytes: readFileSync(made('agree')), tag: '"1"', bare: true };
  await serve(state, async (url) => {
    await assert.rejects(BloomFile.from(url), { code: 'read', message: /Access-Control-Expose-Headers: Content-Range, ETag/ });
    Object.assign(state, { bare: false, length: '*' });
    await assert.rejects(BloomFile.from(url), { code: 'read', message: /a range of unknown length/ });
    Object.assign(state, { length: undefined, status: 404 });
    await assert.rejects(BloomFile.from(url), { code: 'read', message: /the server answers 404 Not Found$/ });
    state.status = undefined;
    const file = await BloomFile.from(url, { hold: 0 });
    // An answer without an ETag, which is none of another version.
    for (const status of [500, 503, 403]) {
      state.status = status;
      await assert.rejects(file.containsMany(pages), { code: 'read', message: new RegExp(`the server answers ${status} `) });
    }
    state.status = undefined;
    assert.equal(await file.contains(pages[0]), true);
    state.status = 416;
    await assert.rejects(file.containsMany(pages), { code: 'changed' });
    file.free();
  });
});

test('a file that could not be opened is let go of', async () => {
  const opened = () => readdirSync('/proc/self/fd').filter((id) => {
    try {
      return readlinkSync(`/proc/self/fd/${id}`).startsWith(folder);
    } catch {
      return false;
    }
  });
  writeFileSync(made('none'), '%PDF-1.7 something else');
  const lost = readFileSync(made('agree'));
  lost[lost.length - 5 * 4096] ^= 1;
  writeFileSync(made('short'), lost.subarray(0, lost.length - 4096));
  for (const [name, options] of [['none', {}], ['short', {}], ['agree', { key: 'no key' }], ['agree', { key }]]) {
    await assert.rejects(BloomFile.from(pathToFileURL(made(name)), options), BloomFileError);
  }
  await assert.rejects(BloomFile.from(pathToFileURL(folder)));
  // They are closed on the side.
  for (const end = Date.now() + 5000; opened().length && Date.now() < end;) await new Promise((go) => setTimeout(go, 10));
  assert.deepEqual(opened(), []);
});

test('a file that changes under way is noticed', async () => {
  const [before, after] = ['agree', 'other'].map((name) => readFileSync(made(name)));
  assert.equal(before.length, after.length);
  // By its version, where the server tells one, and by its pages.
  for (const tag of ['"1"', undefined]) {
    const state = { bytes: before, tag };
    await serve(state, async (url) => {
      const file = await BloomFile.from(url, { hold: 0 });
      assert.equal(await file.contains(pages[0]), true);
      state.bytes = after;
      if (tag) state.tag = '"2"';
      await assert.rejects(file.containsMany(pages), { code: 'changed' });
      file.free();
    });
  }
});

test('calls at the same time do not mix', async () => {
  const file = await BloomFile.from(await openAsBlob(made('agree')), { hold: 0 });
  const even = pages.slice(0, 2000).filter((_, at) => at % 2 === 0);
  const [found, missing] = await Promise.all([file.containsMany(even), file.containsMany(questions('absent', 1000)), file.verify()]);
  assert.ok(found.every(Boolean));
  assert.ok(missing.filter(Boolean).length < 50);
  file.free();
});

test('a file of 1 GiB takes little memory', () => {
  const program = `
    import { openAsBlob } from 'node:fs';
    import { BloomFile } from ${JSON.stringify(new URL('../pkg/index.js', import.meta.url))};
    const small = await BloomFile.from(await openAsBlob(${JSON.stringify(`${goldenFolder}/line.bloom`)}));
    await small.contains('sheep');
    const before = process.resourceUsage().maxRSS;
    const file = await BloomFile.from(await openAsBlob(${JSON.stringify(large())}));
    const found = await file.containsMany(['sheep', ...Array.from({ length: 2000 }, (_, at) => 'absent-' + at)]);
    console.log(JSON.stringify({ length: file.length, held: file.held, found: found.filter(Boolean).length, first: found[0], grown: process.resourceUsage().maxRSS - before }));
  `;
  const out = execFileSync(process.execPath, ['--no-warnings', '--input-type=module', '-e', program]).toString();
  const { length, held, found, first, grown } = JSON.parse(out);
  assert.ok(length > 2 ** 30 && !held && found === 1 && first, out);
  console.log(`a file of 1 GiB: ${(grown / 1024).toFixed(1)} MiB more than one of 20 KiB`);
  assert.ok(grown < 64 * 1024, out);
});

test('two files are compared', async () => {
  const [agree, other] = ['agree', 'other'].map((name) => readFileSync(made(name)));
  assert.ok((await compare(agree, other)).contents.compared);
  const same = await compare(agree, new Blob([agree]));
  assert.equal(same.contents.compared.relation, 'equal');
  assert.ok((await compare(agree, golden('line'))).contents.incomparable.reason);
});

test('the types are those of the package', () => {
  const declared = readFileSync(new URL('../js/index.d.ts', import.meta.url), 'utf8');
  const methods = Object.getOwnPropertyNames(BloomFile.prototype).filter((name) => name !== 'constructor');
  for (const name of methods) assert.match(declared, new RegExp(`\\b${name}\\b`));
  assert.ok(methods.length >= 9);
});

const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));

/** What the compiler says of a program that begins like this one; it is nothing if all is well. */
function compile(path, program, ...options) {
  writeFileSync(path, program);
  const { stdout } = spawnSync(process.execPath, [tsc, '--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022', '--lib', 'es2022,dom', ...options, path]);
  return stdout.toString();
}

/** A value as a program has it. */
function literal(value) {
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return `[${value.map(literal)}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, it]) => `${JSON.stringify(name)}:${literal(it)}`)}}`;
}

test('reports have the fields that the types declare', async () => {
  const names = readdirSync(goldenFolder).filter((name) => name.endsWith('.bloom')).map((name) => name.slice(0, -6));
  assert.ok(names.length >= 17, String(names));
  const types = JSON.stringify(fileURLToPath(new URL('../js/index', import.meta.url)));
  // A literal with a field too many or too few is an error.
  const told = [`import type { Explained, Inspection, PageInspection, Verification } from ${types};`];
  const kinds = new Set();
  for (const [at, name] of names.entries()) {
    const file = await from(name, golden(name));
    const inspection = file.inspect();
    kinds.add(inspection.kind);
    told.push(`export const inspection${at}: Inspection = ${literal(inspection)};`);
    told.push(`export const verification${at}: Verification = ${literal(await file.verify())};`);
    told.push(`export const explained${at}: Explained[] = ${literal(await file.explain())};`);
    told.push(`export const pages${at}: PageInspection[] = ${literal(await file.pages(0, 0, inspection.segments[0].pages))};`);
    file.free();
  }
  assert.deepEqual([...kinds].sort(), ['counting', 'plain', 'sealed']);
  const path = `${folder}/told.ts`;
  assert.equal(compile(path, told.join('\n')), '');
  // Of each kind of report one that is wrong, and a segment with too much.
  const wrong = [['"file_bytes":', '"other":'], ['"pages_exact":', '"other":'], ['"note":', '"other":'], ['"crc":', '"other":']];
  const program = wrong.reduce((text, [before, after]) => text.replace(before, after), told.join('\n'));
  assert.equal(compile(path, program).match(/error TS/g).length, wrong.length);
  assert.match(compile(path, told.join('\n').replace('"cells":', '"too_many":1,"cells":')), /'"too_many"' does not exist in type 'Segment'/);
});

test('the package is installed and imported by its names', () => {
  const at = mkdtempSync(`${folder}/installed-`);
  const npm = (...parameters) => execFileSync('npm', [...parameters, '--offline', '--no-audit', '--no-fund', '--loglevel', 'error'], { cwd: at }).toString();
  const [packed] = JSON.parse(npm('pack', fileURLToPath(new URL('../pkg', import.meta.url)), '--json'));
  assert.deepEqual(packed.files.map((file) => file.path).sort(), [
    'README.md', 'bloomfile.js', 'bloomfile_bg.wasm', 'bloomfile_delta.js', 'bloomfile_delta_bg.wasm',
    'delta.d.ts', 'delta.js', 'index.d.ts', 'index.js', 'package.json', 'shared.js',
  ]);
  writeFileSync(`${at}/package.json`, '{ "private": true, "type": "module" }');
  npm('install', `./${packed.filename}`);
  const program = `
    import { BloomFile, BloomFileError, compare, explain, ready } from 'bloomfile';
    import { applyDelta, update } from 'bloomfile/delta';
  `;
  const check = `
    import { readFileSync } from 'node:fs';
    const golden = (name) => readFileSync(${JSON.stringify(goldenFolder)} + '/' + name);
    const file = await BloomFile.from(golden('line.bloom'));
    const wasm = ['bloomfile', 'bloomfile_delta'].map((name) => readFileSync(new URL(import.meta.resolve('bloomfile/' + name + '_bg.wasm'))).length);
    const failed = await applyDelta(golden('page.bloom'), golden('line.delta')).catch((error) => error instanceof BloomFileError);
    const hidden = await import('bloomfile/bloomfile.js').catch((error) => error.code);
    console.log(JSON.stringify([await file.containsMany(['key-7', 'absent-1']), wasm.every((length) => length > 100_000), failed, hidden, typeof update, typeof compare, typeof explain, typeof ready]));
  `;
  writeFileSync(`${at}/program.js`, program + check);
  const out = execFileSync(process.execPath, ['program.js'], { cwd: at }).toString();
  assert.deepEqual(JSON.parse(out), [[true, false], true, true, 'ERR_PACKAGE_PATH_NOT_EXPORTED', 'function', 'function', 'function', 'function']);
  // The types are found by the same names.
  const typed = `${program}
    // @ts-expect-error
    import other from 'bloomfile/other';
    const file: BloomFile = await BloomFile.from(new ArrayBuffer(0));
    const bytes: Uint8Array = (await update('https://example.org/', await applyDelta(new Blob(), new Blob()))).bytes;
    export const all = [file, bytes, BloomFileError, compare, explain, ready];
  `;
  for (const resolution of [['--module', 'nodenext'], ['--module', 'es2022', '--moduleResolution', 'bundler']]) {
    assert.equal(compile(`${at}/program.ts`, typed, ...resolution), '');
  }
});
