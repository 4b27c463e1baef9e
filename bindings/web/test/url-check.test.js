// The example examples/url-check in a real Chromium: a listed address is stopped, an unlisted one
// passes without the database being asked; a newer list comes as a delta.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { appendFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { canonical, keyOf, keysOf } from '../../../examples/url-check/canonical.js';
import { serve } from '../../../examples/url-check/server.js';
import { bloomfile, folder } from './files.js';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

/** Waits for something, which takes a busy machine long. */
async function until(holds, what) {
  for (const end = Date.now() + 20_000; !(await holds()); await new Promise((go) => setTimeout(go, 10))) {
    assert.ok(Date.now() < end, `not in time: ${what}`);
  }
}

test('one spelling for each address', () => {
  for (const [text, key] of [
    ['http://Example.ORG', 'example.org/'],
    ['  https://example.org:443/a/../b#part ', 'example.org/b'],
    ['http://user:secret@example.org./x', 'example.org/x'],
    ['http://example.org:8080//a///b/', 'example.org:8080/a/b/'],
    ['http://example.org/%2541%20b?q=%2e%2E', 'example.org/A%20b?q=..'],
    ['http://example.org/a/%2e%2e/%2E%2E/b', 'example.org/b'],
    ['http://bücher.example/ü', 'xn--bcher-kva.example/%C3%BC'],
    ['http://0x7f.1/', '127.0.0.1/'],
    ['ftp://example.org/', undefined],
    ['no address', undefined],
  ]) {
    assert.equal(keyOf(text), key, text);
    // A key is its own canonical spelling.
    if (key) assert.equal(keyOf(`http://${key}`), key);
  }
  assert.equal(canonical('about:blank'), undefined);
  const keys = keysOf('http://a.b.c.example/1/2/p?x=1');
  for (const key of ['a.b.c.example/1/2/p?x=1', 'a.b.c.example/1/2/p', 'a.b.c.example/1/', 'c.example/', 'b.c.example/1/2/']) {
    assert.ok(keys.includes(key), `${key} of ${keys}`);
  }
  assert.deepEqual(keysOf('http://127.0.0.1/'), ['127.0.0.1/']);
});

test('a listed address is stopped, an unlisted one passes unasked, and the list is kept up to date', async () => {
  const listed = Array.from({ length: 20_000 }, (_, number) => `http://WWW.evil-${number}.example/bad/../login//${number}?id=%41${number}`);
  const script = fileURLToPath(new URL('../../../examples/url-check/keys.js', import.meta.url));
  const keys = `${folder}/url-keys`;
  writeFileSync(keys, execFileSync(process.execPath, [script], { input: listed.join('\n'), maxBuffer: 1 << 28 }));
  assert.equal(readFileSync(keys, 'utf8').split('\n')[7], 'www.evil-7.example/login/7?id=A7');
  const filter = `${folder}/malicious.bloom`;
  const published = `${folder}/published`;
  bloomfile('build', '-q', filter, keys, '-n', '30k', '-p', '0.001');
  bloomfile('publish', '-q', filter, published);
  const { server, state, url } = await serve(published, keys);
  const { questions, visits } = state;
  assert.deepEqual({ questions, visits }, { questions: 0, visits: 0 });
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'] });
  try {
    const page = await browser.newPage();
    const ready = () => page.waitForSelector('body[data-ready]', { state: 'attached' });
    await page.goto(url);
    await ready();
    const visit = async (address) => {
      await page.goto(url);
      await ready();
      await page.fill('#url', address);
      await page.click('button');
      await page.waitForURL(/visit\?url=/);
      return page.title();
    };
    // An address whose keys the filter rules out.
    assert.equal(await visit('https://good.example/page?x=1'), 'Visited');
    assert.deepEqual([state.questions, state.visits], [0, 1]);
    // Listed, and spelt otherwise than in the list.
    assert.equal(await visit('http://www.evil-7.example:80/./login/7?id=A7#top'), 'Stopped');
    assert.deepEqual([state.questions, state.visits], [1, 1]);
    // While the database is out of order, what the filter cannot rule out is not visited.
    renameSync(keys, `${keys}-away`);
    assert.equal(await visit('http://www.evil-8.example/login/8?id=A8'), 'Not checked');
    assert.equal(await visit('https://good.example/page?x=1'), 'Visited');
    renameSync(`${keys}-away`, keys);
    assert.deepEqual([state.questions, state.visits], [2, 2]);
    let passed = 2;
    for (let number = 0; number < 20; number += 1) passed += (await visit(`https://good-${number}.example/`)) === 'Visited';
    assert.equal(passed, 22);
    await page.goto(url);
    await ready();
    const counts = await page.evaluate(async () => (await fetch('counts')).json());
    assert.equal(counts.navigations, 24);
    assert.equal(counts.stopped, 1);
    assert.equal(counts.passed + counts.asked, 24);
    assert.ok(counts.asked <= 3, JSON.stringify(counts));
    assert.equal(state.questions, counts.asked);

    // A version later: what changed is fetched, and nothing else.
    const sent = (from) => state.log.slice(from).filter((it) => it.path.startsWith('/published/'));
    assert.deepEqual(sent(0).map((it) => it.path.replace(/-[0-9a-f]+/, '')), ['/published/manifest.json', '/published/v1.bloom']);
    assert.ok(!state.log.some((it) => it.path.includes('delta_bg.wasm')), 'not before there is a delta');
    const refresh = () => page.evaluate(async () => (await fetch('refresh')).json());
    const list = (number) => {
      const added = keyOf(`http://new-${number}.example/`);
      appendFileSync(keys, `${added}\n`);
      bloomfile('add', '-q', filter, added);
      bloomfile('publish', '-q', filter, published);
    };
    assert.equal(await visit('http://new-1.example/'), 'Visited');
    list(1);
    let seen = state.log.length;
    await page.goto(url);
    await ready();
    await page.click('#refresh');
    await page.waitForFunction(() => document.querySelector('#filter').textContent.startsWith('Version 2, brought up to date by what changed'));
    assert.deepEqual(sent(seen).map((it) => it.path.replace(/-[0-9a-f]{8,}/, '')), ['/published/manifest.json', '/published/v1-v2.delta']);
    const bytes = sent(seen).reduce((sum, it) => sum + it.bytes, 0);
    assert.ok(bytes < 2000, `${bytes} bytes of the publication`);
    assert.equal(await visit('http://new-1.example/'), 'Stopped');
    assert.equal(await visit('https://good.example/page?x=1'), 'Visited');

    // What the worker keeps outlives it, and so do its counts.
    const counted = () => page.evaluate(async () => (await fetch('counts')).json());
    const before = await counted();
    assert.equal(before.navigations, 27);
    const session = await browser.newBrowserCDPSession();
    const workers = async () => (await session.send('Target.getTargets')).targetInfos.filter((it) => it.type === 'service_worker');
    const [{ targetId }] = await workers();
    await session.send('Target.closeTarget', { targetId });
    await until(async () => !(await workers()).some((it) => it.targetId === targetId), 'the worker ends');
    await session.detach();
    seen = state.log.length;
    assert.equal(await visit('http://new-1.example/'), 'Stopped');
    await page.goto(url);
    await ready();
    const after = await counted();
    for (const name of ['navigations', 'asked', 'stopped']) assert.equal(after[name], before[name] + 1, name);
    assert.equal(after.passed, before.passed);
    // It looks for a newer version beside its answers.
    await until(() => sent(seen).length > 0, 'the next worker asks for the manifest');
    assert.deepEqual(sent(seen).map((it) => it.path), ['/published/manifest.json']);

    // A damaged delta, and one of another file: the snapshot takes its place, and the page says why.
    const deltaOf = () => JSON.parse(readFileSync(`${published}/manifest.json`, 'utf8')).deltas[0];
    list(2);
    const other = readFileSync(`${published}/${deltaOf().name}`);
    const damaged = Buffer.from(other);
    damaged[damaged.length - 1] ^= 1;
    writeFileSync(`${published}/${deltaOf().name}`, damaged);
    let told = await refresh();
    assert.deepEqual([told.version, told.way], [3, 'snapshot']);
    assert.match(told.problem, /v2-v3-.*is not what the manifest says/);
    assert.equal(await visit('http://new-2.example/'), 'Stopped');
    list(3);
    const manifest = JSON.parse(readFileSync(`${published}/manifest.json`, 'utf8'));
    const { name } = manifest.deltas[0];
    writeFileSync(`${published}/${name}`, other);
    Object.assign(manifest.deltas[0], { bytes: other.length, sha256: createHash('sha256').update(other).digest('hex') });
    writeFileSync(`${published}/manifest.json`, JSON.stringify(manifest));
    told = await refresh();
    assert.deepEqual([told.version, told.way], [4, 'snapshot']);
    assert.match(told.problem, /v3-v4-/);

    // And with no sound snapshot either, the old filter stays in use.
    list(4);
    writeFileSync(`${published}/${deltaOf().name}`, damaged);
    const snapshot = `${published}/${JSON.parse(readFileSync(`${published}/manifest.json`, 'utf8')).snapshot.name}`;
    const short = readFileSync(snapshot).subarray(0, 50_000);
    writeFileSync(snapshot, short);
    told = await refresh();
    assert.equal(told.version, 4);
    assert.match(told.problem, /v5-.*is not what the manifest says/);
    assert.equal(await visit('http://new-2.example/'), 'Stopped');
    assert.equal(await visit('http://new-4.example/'), 'Visited');
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
