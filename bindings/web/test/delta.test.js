// Deltas in Node: applied as the command applies them, and followed from a publication.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import test from 'node:test';

import { applyDelta, update } from '../pkg/delta.js';
import { BloomFile } from '../pkg/index.js';
import { bloomfile, folder, goldenFolder, questions } from './files.js';

const made = (name) => `${folder}/${name}`;
const read = (name) => readFileSync(made(name));

function build(name, keys, ...options) {
  writeFileSync(made(`${name}.keys`), keys.join('\n'));
  bloomfile('build', '-q', made(name), made(`${name}.keys`), '-n', '20k', ...options);
}

test('a delta leads to the bytes that the command makes', async () => {
  const keys = questions('key', 10_000);
  for (const [kind, options] of Object.entries({ line: ['-p', '0.01'], page: ['-p', '0.01', '-l', 'page'], flat: ['-p', '0.01', '-l', 'flat'], sealed: ['-p', '0.01', '--sealed'] })) {
    const [old, next] = [`${kind}-old.bloom`, `${kind}-new.bloom`];
    build(old, keys, ...options);
    build(next, [...keys, 'sheep', 'wolf'], ...options);
    bloomfile('delta', '-q', made(old), made(next), '-o', made(`${kind}.delta`));
    bloomfile('apply', '-q', made(`${kind}.delta`), made(old), '-o', made(`${kind}-applied.bloom`));
    const bytes = await applyDelta(read(old), read(`${kind}.delta`));
    assert.ok(Buffer.from(bytes).equals(read(`${kind}-applied.bloom`)), kind);
    const file = await BloomFile.from(bytes);
    assert.deepEqual(await file.containsMany(['sheep', 'wolf', 'key-1']), [true, true, true]);
    file.free();
  }
});

test('golden deltas', async () => {
  const names = readdirSync(goldenFolder).filter((name) => name.endsWith('.delta')).map((name) => name.slice(0, -6));
  assert.ok(names.length >= 8, String(names));
  for (const name of names) {
    const [old, delta] = ['bloom', 'delta'].map((kind) => `${goldenFolder}/${name}.${kind}`);
    bloomfile('apply', '-q', delta, old, '-o', made(`golden-${name}`));
    const bytes = await applyDelta(readFileSync(old), readFileSync(delta));
    assert.ok(Buffer.from(bytes).equals(read(`golden-${name}`)), name);
  }
});

test('what is damaged or belongs elsewhere is refused', async () => {
  const [old, delta] = [read('line-old.bloom'), read('line.delta')];
  for (let at = 0; at < delta.length; at += 7) {
    const damaged = Buffer.from(delta);
    damaged[at] ^= 4;
    await assert.rejects(applyDelta(old, damaged), { name: 'BloomFileError' }, `byte ${at}`);
  }
  await assert.rejects(applyDelta(old, delta.subarray(0, 100)), { code: 'damaged-delta' });
  await assert.rejects(applyDelta(old, old), { code: 'damaged-delta' });
  await assert.rejects(applyDelta(read('line-new.bloom'), delta), { code: 'other-version' });
  await assert.rejects(applyDelta(delta, delta), { code: 'not-a-bloomfile' });
  await assert.rejects(applyDelta('text', delta), TypeError);
  const damaged = Buffer.from(old);
  damaged[damaged.length - 5000] ^= 1;
  await assert.rejects(applyDelta(damaged, delta), (error) => {
    assert.deepEqual([error.name, error.code, typeof error.page, typeof error.segment], ['BloomFileError', 'damaged', 'number', 'number']);
    return true;
  });
  // What a server says in place of the bytes.
  await assert.rejects(applyDelta(old, new Response('gone', { status: 404 })), { code: 'read', message: 'the server answers 404' });
  assert.ok(Buffer.from(await applyDelta(new Response(old), new Blob([delta]))).equals(read('line-applied.bloom')));
});

test('a file that a delta makes has no more bytes than are allowed', async () => {
  const [old, delta] = [read('line-old.bloom'), read('line.delta')];
  const { length } = read('line-applied.bloom');
  assert.equal((await applyDelta(old, delta, { most: length })).length, length);
  const message = new RegExp(`leads to a file of ${length} bytes, and at most ${length - 1} are allowed`);
  await assert.rejects(applyDelta(old, delta, { most: length - 1 }), { code: 'invalid', message });
});

test('answers without a body, or with one that is not read in parts', async () => {
  bloomfile('publish', '-q', made('line-new.bloom'), made('bodiless'));
  const manifest = read('bodiless/manifest.json');
  const snapshot = read(`bodiless/${JSON.parse(manifest).snapshot.name}`);
  const answers = (body) => async (url) => {
    const bytes = String(url).endsWith('.json') ? manifest : snapshot;
    return { ok: true, status: 200, body, arrayBuffer: async () => new Uint8Array(bytes).buffer };
  };
  const url = 'https://example.org/bodiless/';
  for (const body of [null, {}]) {
    const found = await update(url, undefined, { fetch: answers(body) });
    assert.deepEqual([found.way, found.transferred], ['snapshot', manifest.length + snapshot.length]);
    assert.ok(Buffer.from(found.bytes).equals(snapshot));
  }
  const empty = async () => new Response(null);
  await assert.rejects(update(url, undefined, { fetch: empty }), { code: 'invalid', message: /is not a manifest/ });
});

/** A folder in place of a web server, and what was fetched from it. */
function served(path) {
  const log = [];
  const fetch = async (url) => {
    const name = String(url).split('/').at(-1);
    log.push(name.replace(/-[0-9a-f]{8,}/, ''));
    return existsSync(`${path}/${name}`) ? new Response(readFileSync(`${path}/${name}`)) : new Response('', { status: 404 });
  };
  return { log, options: { fetch } };
}

test('a publication is followed by deltas, or by its snapshot', async () => {
  const [live, published] = [made('live.bloom'), made('following')];
  bloomfile('create', '-q', live, '-n', '20k', '-p', '0.01');
  const url = 'https://example.org/following';
  const versions = [];
  for (let version = 1; version <= 4; version += 1) {
    bloomfile('add', '-q', live, `key-${version}`);
    bloomfile('publish', '-q', live, published, '--keep', '2');
    const { log, options } = served(published);
    const first = await update(url, undefined, options);
    assert.deepEqual([first.way, first.version, first.problems], ['snapshot', version, []]);
    assert.deepEqual(log, ['manifest.json', `v${version}.bloom`]);
    assert.equal(first.transferred, readFileSync(`${published}/manifest.json`).length + first.bytes.length);
    versions.push(first.bytes);
  }
  const from = async (old) => {
    const { log, options } = served(published);
    const found = await update(new URL(`${url}/manifest.json`), old, options);
    assert.ok(Buffer.from(found.bytes).equals(versions[3]));
    return [found.way, found.from, found.deltas, log];
  };
  assert.deepEqual(await from(versions[3]), ['current', 4, 0, ['manifest.json']]);
  assert.deepEqual(await from(versions[2]), ['deltas', 3, 1, ['manifest.json', 'v3-v4.delta']]);
  assert.deepEqual(await from(versions[1]), ['deltas', 2, 2, ['manifest.json', 'v2-v3.delta', 'v3-v4.delta']]);
  assert.deepEqual(await from(versions[0]), ['snapshot', undefined, 0, ['manifest.json', 'v4.bloom']]);
  assert.deepEqual((await from(Buffer.from('no filter')))[0], 'snapshot');
  // The same contents in another file: by its digest.
  bloomfile('pull', '-q', published, made('pulled.bloom'));
  assert.ok(read('pulled.bloom').equals(Buffer.from(versions[3])));
  // One that is damaged under sound headers takes no delta, and says so.
  const damaged = Buffer.from(versions[2]);
  damaged[damaged.length - 5000] ^= 1;
  const { options } = served(published);
  const healed = await update(url, damaged, options);
  assert.equal(healed.way, 'snapshot');
  assert.equal(healed.problems[0].code, 'damaged');
});

test('a manifest that lies, or is older, changes nothing', async () => {
  const published = made('following');
  const lying = made('lying');
  mkdirSync(lying);
  for (const name of readdirSync(published)) copyFileSync(`${published}/${name}`, `${lying}/${name}`);
  const sound = JSON.parse(readFileSync(`${published}/manifest.json`, 'utf8'));
  const { options } = served(lying);
  const { bytes: current } = await update('https://example.org/x/', undefined, options);
  const with_ = (change) => {
    const manifest = structuredClone(sound);
    change(manifest);
    writeFileSync(`${lying}/manifest.json`, JSON.stringify(manifest));
    return update('https://example.org/x/', undefined, options);
  };
  await assert.rejects(with_((it) => (it.bloomfile_manifest = 2)), { code: 'unsupported' });
  await assert.rejects(with_((it) => (it.snapshot.name = '../secret')), { code: 'invalid' });
  await assert.rejects(with_((it) => (it.snapshot.sha256 = '0'.repeat(64))), { code: 'damaged' });
  await assert.rejects(with_((it) => (it.snapshot.bytes -= 1)), { code: 'invalid' });
  await assert.rejects(with_((it) => (it.versions[0].head = '0'.repeat(64))), { code: 'other-version' });
  await assert.rejects(with_((it) => (it.deltas[0].to = 9)), { code: 'invalid' });
  await assert.rejects(with_((it) => it.versions.shift()), { code: 'invalid' });
  await assert.rejects(with_((it) => (it.snapshot.name = 'v9-gone.bloom')), { code: 'read', message: /404/ });
  writeFileSync(`${lying}/manifest.json`, '<html>');
  await assert.rejects(update('https://example.org/x/', undefined, options), { code: 'invalid', message: /is not a manifest/ });
  // Older than what is here.
  bloomfile('publish', '-q', made('line-old.bloom'), made('older'));
  const older = JSON.parse(readFileSync(`${made('older')}/manifest.json`, 'utf8'));
  older.series = sound.series;
  writeFileSync(`${made('older')}/manifest.json`, JSON.stringify(older));
  const behind = served(made('older')).options;
  await assert.rejects(update('https://example.org/x/', current, behind), { message: /version 4 is here, and the source has only version 1/ });
  assert.equal((await update('https://example.org/x/', current, { ...behind, allowOlder: true })).way, 'snapshot');
});
