// The example examples/url-check in a real Chromium: a listed address is stopped, an unlisted one
// passes without the database being asked.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { canonical, keyOf, keysOf } from '../../../examples/url-check/canonical.js';
import { serve } from '../../../examples/url-check/server.js';
import { bloomfile, folder } from './files.js';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';

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

test('a listed address is stopped, an unlisted one passes unasked', async () => {
  const listed = Array.from({ length: 20_000 }, (_, number) => `http://WWW.evil-${number}.example/bad/../login//${number}?id=%41${number}`);
  const script = fileURLToPath(new URL('../../../examples/url-check/keys.js', import.meta.url));
  const keys = `${folder}/url-keys`;
  writeFileSync(keys, execFileSync(process.execPath, [script], { input: listed.join('\n'), maxBuffer: 1 << 28 }));
  assert.equal(readFileSync(keys, 'utf8').split('\n')[7], 'www.evil-7.example/login/7?id=A7');
  const filter = `${folder}/malicious.bloom`;
  bloomfile('build', '-q', filter, keys, '--sealed', '-n', '20k', '-p', '0.001');
  const { server, state, url } = await serve(filter, keys);
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
    assert.deepEqual(state, { questions: 0, visits: 1 });
    // Listed, and spelt otherwise than in the list.
    assert.equal(await visit('http://www.evil-7.example:80/./login/7?id=A7#top'), 'Stopped');
    assert.deepEqual(state, { questions: 1, visits: 1 });
    let passed = 1;
    for (let number = 0; number < 20; number += 1) passed += (await visit(`https://good-${number}.example/`)) === 'Visited';
    assert.equal(passed, 21);
    await page.goto(url);
    await ready();
    const counts = await page.evaluate(async () => (await fetch('counts')).json());
    assert.equal(counts.navigations, 22);
    assert.equal(counts.stopped, 1);
    assert.equal(counts.passed + counts.asked, 22);
    assert.ok(counts.asked <= 2, JSON.stringify(counts));
    assert.equal(state.questions, counts.asked);
  } finally {
    await browser.close();
    server.closeAllConnections();
    server.close();
  }
});
