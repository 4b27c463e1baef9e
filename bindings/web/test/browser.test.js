// The page and the package in a real Chromium, without a network.
import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import test from 'node:test';
import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { bloomfile, folder, forms, goldenFolder, goldenTable, large, questions, unverifiable } from './files.js';

const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
const pagePath = fileURLToPath(new URL('../pkg/page.html', import.meta.url));
/** The same as the command writes it, which has it from the last time that it was taken over. */
const shippedPath = `${folder}/app.html`;
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const pictures = process.env.BLOOMFILE_SCREENSHOTS;
const made = (name) => `${folder}/${name}.bloom`;

let browser;

test.before(async () => {
  browser = await chromium.launch({
    executablePath,
    args: ['--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
  });
  const keys = questions('key', 40_000);
  writeFileSync(`${folder}/keys`, keys.join('\n'));
  writeFileSync(`${folder}/others`, questions('other', 40_000).join('\n'));
  for (const [name, list] of [['sound', 'keys'], ['other', 'others']]) {
    bloomfile('build', '-q', made(name), `${folder}/${list}`, '-n', '50k', '-p', '0.01', '--meta', 'note=<b>no markup</b>');
  }
  const bytes = readFileSync(made('sound'));
  for (const page of [3, 4, 9]) bytes[bytes.length - page * 4096] ^= 1;
  writeFileSync(made('damaged'), bytes);
});
test.after(() => browser?.close());

/** Opens the page and gives it to `work`; whatever it asks the network or complains about is an error. */
async function visit({ path = pagePath, ...options }, work) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => ['error', 'warning'].includes(message.type()) && complaints.push(message.text()));
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('request', (request) => /^(file|data|blob):/.test(request.url()) || complaints.push(request.url()));
  try {
    await page.goto(`file://${path}`);
    await page.waitForSelector('body[data-ready]', { state: 'attached' });
    await work(page);
    assert.deepEqual(complaints, []);
  } finally {
    await context.close();
  }
}

/** Waits for something on the page; its policy keeps Playwright's own way from working. */
async function until(page, holds, argument) {
  for (const end = Date.now() + 20_000; Date.now() < end; await page.waitForTimeout(20)) {
    if (await page.evaluate(holds, argument)) return;
  }
  assert.fail(`not in time: ${holds}; the page says ${await page.evaluate(() => document.body.innerText.slice(0, 1500))}`);
}

const open = async (page, path) => {
  await page.setInputFiles('#file', path);
  await until(page, () => document.querySelector('#error').textContent || document.querySelector('#map svg'));
};
/** The most memory that each tab had at a time, in MiB, by its process. */
async function memory() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  await session.detach();
  const tabs = new Map();
  for (const { id } of processInfo.filter((it) => it.type === 'renderer')) {
    let status = '';
    try {
      status = readFileSync(`/proc/${id}/status`, 'utf8');
    } catch {
      // That of an earlier test, which has ended by now.
    }
    tabs.set(id, Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024);
  }
  return tabs;
}
/** How much more the tabs that were there before have had since. */
async function memorySince(before) {
  const now = await memory();
  return [...before].reduce((sum, [id, had]) => sum + Math.max(0, (now.get(id) ?? 0) - had), 0);
}
const content = (page, selector) => page.locator(selector).textContent();

test('the page is one small file', () => {
  assert.ok(statSync(pagePath).size <= 400 * 1024, String(statSync(pagePath).size));
  assert.doesNotMatch(readFileSync(pagePath, 'utf8'), /(src|href)="(?!data:)/);
});

test('a sound file: what it is, and its keys as they are typed', () => visit({}, sound));

test('the same in the page that the command writes', async () => {
  bloomfile('inspect', '--app', shippedPath);
  await visit({ path: shippedPath }, sound);
});

async function sound(page) {
  await open(page, made('sound'));
  assert.equal(await content(page, '#file-title'), 'sound.bloom');
  assert.match(await content(page, '#file-kind'), /^A Bloom filter \(bloomfile format 1\)/);
  await until(page, () => document.querySelector('#health').classList.contains('good'));
  assert.match(await content(page, '#health-text'), /^All \d+ pages are as written\./);
  assert.match(await content(page, '#cards'), /Keys, about(39|40),\d{3}/);
  assert.match(await content(page, '#metadata'), /<b>no markup<\/b>/);
  assert.equal(await page.locator('#map rect.broken').count(), 0);
  // The charts and figures of the report that the command writes.
  const written = `${folder}/report.html`;
  bloomfile('inspect', made('sound'), '--html', written, '--force');
  const report = readFileSync(written, 'utf8');
  const texts = (html, tag) => [...html.matchAll(new RegExp(`<${tag}[^>]*>([^<]*)</${tag}>`, 'g'))].map(([, text]) => text);
  const charts = await page.locator('#charts').innerHTML();
  assert.deepEqual(texts(charts, 'figcaption'), texts(report, 'figcaption'));
  assert.ok(texts(charts, 'h2').includes('Keys per block, against the Poisson law'));
  assert.ok(texts(charts, 'figcaption').length >= 3);
  const digest = /<th scope="row">Digest<\/th><td>([0-9a-f]{64})</.exec(report)[1];
  assert.ok((await content(page, '#parameters')).includes(digest));
  assert.match(await content(page, '#checks'), /all \d+ are as written/);
  assert.match(await content(page, '#advice'), /^Advice: nothing to do/);
  await page.locator('#keys').pressSequentially('key-7');
  await until(page, () => document.querySelector('#count').textContent.startsWith('1 key: 1 may be in, 0'));
  await page.locator('#keys').pressSequentially('\nno such key');
  await until(page, () => document.querySelector('#count').textContent.startsWith('2 keys: 1 may be in, 1 certainly not.'));
  assert.equal(await page.locator('#answers td.absent').count(), 1);
  await page.fill('#page', '2');
  await page.click('#jump button');
  await page.waitForSelector('.hex');
  assert.match(await content(page, '#one'), /^Page 2 of segment 0, bytes .*: it is as written\. Its entry: CRC-32 [0-9a-f]{8}, \d/);
}

/** Drags a file over an element and drops it there, as a user does. */
async function drop(page, path, selector) {
  const box = await page.locator(selector).boundingBox();
  const session = await page.context().newCDPSession(page);
  const at = { x: box.x + box.width / 2, y: box.y + Math.min(box.height / 2, 20) };
  const data = { items: [], files: [path], dragOperationsMask: 1 };
  const step = (type) => session.send('Input.dispatchDragEvent', { type, ...at, data });
  await step('dragEnter');
  await step('dragOver');
  await until(page, () => document.body.classList.contains('over'));
  await step('drop');
  await until(page, () => !document.body.classList.contains('over'));
  await session.detach();
}

test('files that are dropped on the page are opened, and lists on the keys are asked', async () => {
  writeFileSync(`${folder}/few`, 'key-1\nno such key\nkey-2\n');
  await visit({}, async (page) => {
    await drop(page, made('sound'), 'h1');
    await until(page, () => document.querySelector('#file-title').textContent === 'sound.bloom' && document.querySelector('#map svg'));
    await page.locator('#keys').scrollIntoViewIfNeeded();
    await drop(page, `${folder}/few`, '#keys');
    await until(page, () => document.querySelector('#count').textContent.startsWith('3 keys: 2 may be in, 1 certainly not.'));
    assert.equal(await content(page, '#file-title'), 'sound.bloom');
    // Another one in its place.
    await page.locator('h1').scrollIntoViewIfNeeded();
    await drop(page, made('damaged'), 'h1');
    await until(page, () => document.querySelector('#file-title').textContent === 'damaged.bloom' && document.querySelector('#health').classList.contains('bad'));
  });
});

test('typed keys are read in the form that the file records, and the page says so', async () => {
  const words = ['no, certainly', 'maybe', 'cannot be told: its page is damaged', 'no key: it is not written as the keys of this file are'];
  const told = {
    '--hex': 'as hex digits',
    '--lower': 'in lower case',
    '--trim': 'white space around them goes',
    '--trim --hex': 'white space around them goes, as hex digits',
    '--encoding le64': 'as whole numbers (le64)',
    '--encoding be64': 'as whole numbers (be64)',
    '--encoding decimal': 'as whole numbers (decimal)',
    '--crlf': 'CR LF ends a line',
  };
  await visit({}, async (page) => {
    for (const { path, options, answers } of forms()) {
      await open(page, path);
      await until(page, (words) => document.querySelector('#form').textContent === `Keys are read as the file says: ${words}.`, told[options]);
      // A field that is empty asks nothing.
      const texts = Object.keys(answers).filter((text) => text !== '');
      await page.fill('#keys', texts.join('\n'));
      await until(page, (count) => document.querySelector('#count').textContent.startsWith(`${count} keys: `) && document.querySelectorAll('#answers tbody tr').length === count, texts.length);
      const shown = await page.locator('#answers tbody td:nth-child(2)').allTextContents();
      assert.deepEqual(shown, texts.map((text) => words[answers[text]]), options);
      const refused = texts.filter((text) => answers[text] === 3).length;
      const count = await content(page, '#count');
      assert.equal(/(\d+) (is no key|are no keys)/.exec(count)?.[1] ?? '0', String(refused), count);
      await page.fill('#keys', '');
    }
    await open(page, made('sound'));
    await until(page, () => document.querySelector('#form').textContent === '');
  });
});

test('lists are read as the command reads them, or the page says why not', async () => {
  const list = (name, bytes) => (writeFileSync(`${folder}/${name}`, bytes), `${folder}/${name}`);
  const crlf = list('crlf', 'key-1\r\nkey-2\r\n');
  await visit({}, async (page) => {
    await open(page, made('sound'));
    await page.setInputFiles('#list', crlf);
    // The command finds none of them either.
    assert.throws(() => bloomfile('check', '-q', made('sound'), '--from', crlf), { status: 1 });
    await until(page, () => document.querySelector('#count').textContent === '2 keys: 0 may be in, 2 certainly not. Its lines end in CR LF, and each CR was taken as part of its key.');
    // Bytes that are no UTF-8 would become other keys.
    await page.setInputFiles('#list', list('latin', Buffer.from([0x6b, 0xe4, 0x0a])));
    await until(page, () => document.querySelector('#error').textContent.startsWith('latin cannot be read as a list of keys in UTF-8: '));
    assert.equal(await content(page, '#count'), '');
    await page.setInputFiles('#list', crlf);
    await until(page, () => document.querySelector('#error').textContent === '');
    // One that went away, or is too long.
    await page.evaluate(() => (File.prototype.arrayBuffer = async () => { throw new DOMException('it went away', 'NotReadableError'); }));
    await page.setInputFiles('#list', list('gone', 'key-1\n'));
    await until(page, () => document.querySelector('#error').textContent === 'gone cannot be read as a list of keys in UTF-8: it went away');
  });
  const { path } = forms().find(({ options }) => options === '--crlf');
  await visit({}, async (page) => {
    await open(page, path);
    await page.setInputFiles('#list', list('sheep', 'sheep\r\nwolf\r\n'));
    await until(page, () => document.querySelector('#count').textContent === '2 keys: 1 may be in, 1 certainly not.');
  });
});

test('pages that cannot be verified are not called as written', async () => {
  const path = await unverifiable();
  await visit({}, async (page) => {
    await open(page, path);
    await until(page, () => document.querySelector('#health').classList.contains('warn'));
    assert.match(await content(page, '#health-text'), /^1 of \d+ pages holds more than checksums and journal explain: keys that were added and not synced, or damage\. /);
    const last = Number(/of (\d+) pages/.exec(await content(page, '#health-text'))[1]) - 1;
    for (const [number, state] of [[last, 'it holds more than checksums and journal explain'], [0, 'it is as written']]) {
      await page.fill('#page', String(number));
      await page.click('#jump button');
      await until(page, (start) => document.querySelector('#one').textContent.startsWith(start), `Page ${number} `);
      assert.ok((await content(page, '#one')).includes(`: ${state}`), await content(page, '#one'));
    }
  });
});

test('a list of 100,000 keys gives the count of the command', async () => {
  const list = [...questions('key', 50_000), ...questions('absent', 50_000)];
  writeFileSync(`${folder}/list`, list.join('\n'));
  const told = bloomfile('check', made('sound'), '--from', `${folder}/list`).trim().split('\n').length;
  await visit({}, async (page) => {
    await open(page, made('sound'));
    await page.setInputFiles('#list', `${folder}/list`);
    const text = `100,000 keys: ${told.toLocaleString('en')} may be in, ${(100_000 - told).toLocaleString('en')} certainly not.`;
    await until(page, (text) => document.querySelector('#count').textContent.startsWith(text), text);
  });
});

test('a damaged file: where, in red, and what cannot be told', async () => {
  await visit({}, async (page) => {
    await open(page, made('damaged'));
    await until(page, () => document.querySelector('#health').classList.contains('bad'));
    assert.match(await content(page, '#health-text'), /^Damaged: 3 of \d+ pages are not what was written/);
    await page.waitForSelector('#map rect.broken', { state: 'attached' });
    assert.equal(await page.locator('#map rect.broken').count(), 2);
    assert.ok(await page.locator('#ranges tr.wrong').count() >= 2);
    // As pasting does it: typing so much takes Chromium long.
    await page.evaluate((text) => {
      document.querySelector('#keys').value = text;
      document.querySelector('#keys').dispatchEvent(new Event('input'));
    }, questions('key', 2000).join('\n'));
    await until(page, () => /^2,000 keys: .* cannot be told\./.test(document.querySelector('#count').textContent));
  });
});

test('what cannot be opened says why', async () => {
  writeFileSync(`${folder}/text.bloom`, '%PDF-1.7 not a filter');
  const lost = readFileSync(made('sound'));
  lost[4096 + 20] ^= 1;
  lost[8192 + 20] ^= 1;
  writeFileSync(made('lost'), lost);
  await visit({}, async (page) => {
    await open(page, `${folder}/text.bloom`);
    assert.match(await content(page, '#error'), /^text\.bloom: is not a bloomfile/);
    assert.ok(await page.locator('#report').isHidden());
    await page.setInputFiles('#file', made('lost'));
    await until(page, () => document.querySelector('#error').textContent.startsWith('lost.bloom: both state slots are damaged'));
    await page.waitForSelector('#map rect.broken', { state: 'attached' });
    await open(page, made('sound'));
    await until(page, () => document.querySelector('#error').textContent === '');
  });
});

test('a keyed file takes its secret', async () => {
  await visit({}, async (page) => {
    await open(page, `${goldenFolder}/keyed.bloom`);
    await page.waitForSelector('#secret:not([hidden])');
    await page.fill('#keys', 'key-1');
    await until(page, () => document.querySelector('#error').textContent.includes('keyed'));
    await page.fill('#key', '676f6c64656e2074657374206b65792e');
    await page.press('#key', 'Enter');
    await until(page, () => document.querySelector('#count').textContent.startsWith('1 key: 1 may be in'));
  });
});

test('two files are compared', async () => {
  await visit({}, async (page) => {
    await open(page, made('sound'));
    await page.setInputFiles('#other', made('other'));
    await until(page, () => /bits/.test(document.querySelector('#comparison').textContent));
    await page.setInputFiles('#other', `${goldenFolder}/line.bloom`);
    await until(page, () => /cannot be held against each other/.test(document.querySelector('#comparison').textContent));
  });
});

test('two large files are compared with little memory', async () => {
  const [a, b] = [made('large-a'), made('large-b')];
  bloomfile('create', '-q', a, '-n', '220M', '-p', '0.01', '-l', 'line', '--journal', '0');
  copyFileSync(a, b);
  bloomfile('add', '-q', b, 'sheep');
  assert.ok(statSync(a).size + statSync(b).size > 512 << 20);
  await visit({}, async (page) => {
    await open(page, a);
    const before = await memory();
    await page.setInputFiles('#other', b);
    for (const end = Date.now() + 60_000; Date.now() < end; await page.waitForTimeout(50)) {
      if (/bits/.test(await content(page, '#comparison'))) break;
    }
    assert.match(await content(page, '#comparison'), /The other file has all bits of the open one, and more/);
    const more = await memorySince(before);
    console.log(`two files of 267 MiB compared in the page: ${more.toFixed(1)} MiB more`);
    assert.ok(more < 256, `${more} MiB`);
  });
  rmSync(a);
  rmSync(b);
});

test('a file that is opened while another is checked is shown without errors of that one', async () => {
  await visit({}, async (page) => {
    await page.evaluate(() => {
      const { slice } = Blob.prototype;
      globalThis.reads = 0;
      Blob.prototype.slice = function counted(...range) {
        globalThis.reads += 1;
        return slice.apply(this, range);
      };
    });
    // Too large to be held in memory.
    bloomfile('create', '-q', made('wide'), '-n', '100M', '-p', '0.01', '-l', 'line', '--journal', '0');
    await open(page, made('wide'));
    await page.click('#verify');
    await until(page, () => document.querySelector('#progress').value > 0);
    await open(page, made('sound'));
    await until(page, () => document.querySelector('#health').classList.contains('good'));
    assert.equal(await content(page, '#file-title'), 'sound.bloom');
    // All that is still read for the first one has come by then.
    for (let reads = -1, now = 0; reads !== now; now = await page.evaluate(() => globalThis.reads)) {
      reads = now;
      await page.waitForTimeout(1000);
    }
    assert.equal(await content(page, '#error'), '');
    assert.match(await content(page, '#health-text'), /^All \d+ pages are as written\./);
  });
});

test('what is still under way for one file is not shown with the next', async () => {
  await visit({}, async (page) => {
    // What is read of files waits while the gate is closed.
    await page.evaluate(() => {
      const { arrayBuffer } = Blob.prototype;
      globalThis.gate = Promise.resolve();
      globalThis.waiting = 0;
      Blob.prototype.arrayBuffer = async function gated() {
        const { gate } = globalThis;
        globalThis.waiting += 1;
        await gate;
        globalThis.waiting -= 1;
        return arrayBuffer.call(this);
      };
    });
    const close = () => page.evaluate(() => {
      globalThis.gate = new Promise((open) => (globalThis.release = open));
    });
    /** Opens another file while something is read of this one, and lets that go on. */
    const overtake = async () => {
      await until(page, () => globalThis.waiting > 0);
      await page.evaluate(() => (globalThis.gate = Promise.resolve()));
      await page.setInputFiles('#file', made('sound'));
      await until(page, () => document.querySelector('#file-title').textContent === 'sound.bloom' && document.querySelector('#health').classList.contains('good'));
      await page.evaluate(() => globalThis.release());
      await until(page, () => globalThis.waiting === 0);
      await page.waitForTimeout(500);
      assert.equal(await content(page, '#error'), '');
      assert.equal(await content(page, '#status'), '');
      assert.match(await content(page, '#health-text'), /^All \d+ pages are as written\./);
    };
    /** Opens a file that is too large to be held in memory: each look-up reads of it. */
    const wide = async () => {
      await page.evaluate(() => document.querySelector('#map').replaceChildren());
      await page.setInputFiles('#file', made('wide'));
      await until(page, () => document.querySelector('#file-title').textContent === 'wide.bloom' && document.querySelector('#map svg') && globalThis.waiting === 0);
    };
    if (!existsSync(made('wide'))) bloomfile('create', '-q', made('wide'), '-n', '100M', '-p', '0.01', '-l', 'line', '--journal', '0');
    writeFileSync(`${folder}/few`, 'key-1\nno such key\n');
    await wide();
    await close();
    await page.setInputFiles('#list', `${folder}/few`);
    // The list itself is read first.
    await page.evaluate(() => globalThis.release());
    await until(page, () => /^2 keys: 0 may be in/.test(document.querySelector('#count').textContent));
    await close();
    // Of one that was not asked before, the page is read.
    await page.fill('#keys', 'key-2');
    await overtake();
    // It is asked again, in the file that is shown.
    await until(page, () => document.querySelector('#count').textContent.startsWith('1 key: 1 may be in'));
    await page.fill('#keys', '');
    // A list that is still being read.
    await wide();
    await close();
    await page.setInputFiles('#list', `${folder}/few`);
    await until(page, () => globalThis.waiting > 0);
    await overtake();
    assert.equal(await content(page, '#count'), '');
    assert.ok(await page.locator('#answers').isHidden());
    // Two files that are compared.
    await wide();
    await close();
    await page.setInputFiles('#other', made('other'));
    await overtake();
    assert.equal(await content(page, '#comparison'), '');
    // The newer one of two comparisons.
    await close();
    await page.setInputFiles('#other', `${goldenFolder}/line.bloom`);
    await until(page, () => globalThis.waiting > 0);
    await page.evaluate(() => (globalThis.gate = Promise.resolve()));
    await page.setInputFiles('#other', made('other'));
    await until(page, () => /bits/.test(document.querySelector('#comparison').textContent));
    const shown = await content(page, '#comparison');
    await page.evaluate(() => globalThis.release());
    await until(page, () => globalThis.waiting === 0);
    await page.waitForTimeout(300);
    assert.equal(await content(page, '#comparison'), shown);
    // And a page that was to be shown.
    await wide();
    await close();
    await page.fill('#page', '7');
    await page.click('#jump button');
    await overtake();
    assert.equal(await content(page, '#one'), '');
  });
});

test('by keyboard, and without serious problems for screen readers', async () => {
  const viewports = [{ width: 1200, height: 900 }, { width: 390, height: 844 }];
  const combinations = ['sound', 'damaged'].flatMap((name) =>
    ['light', 'dark'].flatMap((colorScheme) => viewports.map((viewport) => [name, colorScheme, viewport])));
  assert.equal(combinations.length, 8);
  for (const [name, colorScheme, viewport] of combinations) {
    await visit({ colorScheme, viewport }, async (page) => {
      await page.keyboard.press('Tab');
      assert.equal(await page.evaluate(() => document.activeElement.id), 'file');
      const check = async () => {
        const { violations } = await page.evaluate(`(() => { ${axe}; return axe.run(); })()`);
        return violations.filter((it) => ['serious', 'critical'].includes(it.impact)).map((it) => `${it.id}: ${it.nodes.map((node) => node.html)}`);
      };
      assert.deepEqual(await check(), []);
      await open(page, made(name));
      await page.fill('#keys', 'key-1\nkey-2\nabsent-1\nabsent-2');
      await until(page, () => document.querySelector('#count').textContent && /good|bad/.test(document.querySelector('#health').className));
      await page.waitForTimeout(200);
      assert.deepEqual(await check(), [], `${name}, ${colorScheme}, ${viewport.width}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${name} at ${viewport.width}: ${wide} too wide`);
      if (pictures) {
        mkdirSync(pictures, { recursive: true });
        await page.screenshot({ path: `${pictures}/${name}-${colorScheme}-${viewport.width}.png`, fullPage: true });
      }
    });
  }
});

test('a file of 1 GiB is opened and asked with little memory', async () => {
  const path = large();
  await visit({}, async (page) => {
    await open(page, `${goldenFolder}/line.bloom`);
    const before = await memory();
    await page.setInputFiles('#file', path);
    await until(page, () => document.querySelector('#file-title').textContent === 'large.bloom' && document.querySelector('#map svg'));
    await page.fill('#keys', 'sheep\nwolf');
    await until(page, () => document.querySelector('#count').textContent.startsWith('2 keys: 1 may be in, 1 certainly not.'));
    const grown = await memorySince(before);
    console.log(`a file of 1 GiB in the page: ${grown.toFixed(1)} MiB more`);
    assert.ok(grown < 64, String(grown));
  });
});

/** A server of the package, and of the files that `files` has under their paths, in ranges. */
async function serve(files, headers, work) {
  const types = { js: 'text/javascript', wasm: 'application/wasm', html: 'text/html' };
  const server = createServer((request, response) => {
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    if (request.method === 'OPTIONS') return response.writeHead(204).end();
    if (request.url === '/') return response.writeHead(200, { 'content-type': 'text/html' }).end('<!DOCTYPE html><title>.</title>');
    let bytes = files[request.url];
    try {
      bytes ??= readFileSync(fileURLToPath(new URL(`../pkg${request.url}`, import.meta.url)));
    } catch {
      return response.writeHead(404).end();
    }
    const type = types[request.url.split('.').at(-1)] ?? 'application/octet-stream';
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    if (!range) return response.writeHead(200, { 'content-type': type }).end(bytes);
    const [start, end] = [Number(range[1]), Math.min(Number(range[2]) + 1, bytes.length)];
    response.writeHead(206, { 'content-type': type, 'content-range': `bytes ${start}-${end - 1}/${bytes.length}`, ...(files.tag && { etag: files.tag }) });
    return response.end(bytes.subarray(start, end));
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  try {
    await work(`http://127.0.0.1:${server.address().port}/`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

/** A window at this address. */
async function window(address, work) {
  const context = await browser.newContext();
  try {
    const page = await context.newPage();
    await page.goto(address);
    await work(page);
  } finally {
    await context.close();
  }
}

test('the package in a window and in a worker', async () => {
  await serve({ '/sound.bloom': readFileSync(made('sound')) }, {}, (address) => window(address, async (page) => {
    const ask = `const { BloomFile } = await import(new URL('/index.js', location.origin));
      const file = await BloomFile.from(new URL('/sound.bloom', location.origin), { hold: 0 });
      const answer = [file.held, await file.contains('key-5'), await file.contains('no such key')];`;
    assert.deepEqual(await page.evaluate(`(async () => { ${ask} return answer; })()`), [false, true, false]);
    const inWorker = await page.evaluate(`new Promise((done, fail) => {
      const code = ${JSON.stringify(`(async () => { ${ask} postMessage(answer); })()`)}.replaceAll('location.origin', JSON.stringify(location.origin));
      const worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })), { type: 'module' });
      worker.onmessage = (event) => done(event.data);
      worker.onerror = (event) => fail(event.message);
    })`);
    assert.deepEqual(inWorker, [false, true, false]);
  }));
});

test('golden files give the answers that their README lists, in a window', async () => {
  const table = goldenTable();
  assert.ok(table.length >= 17, String(table.length));
  const files = Object.fromEntries(table.map(({ file }) => [`/${file}.bloom`, readFileSync(`${goldenFolder}/${file}.bloom`)]));
  await serve(files, {}, (address) => window(address, async (page) => {
    const found = await page.evaluate(async (table) => {
      const { BloomFile } = await import(new URL('/index.js', location.origin));
      const questions = (word, count) => Array.from({ length: count }, (_, number) => `${word}-${number}`);
      const told = [];
      // As a whole, and page by page.
      for (const hold of [undefined, 0]) {
        for (const { file: name, keys } of table) {
          const key = name === 'keyed' ? '676f6c64656e2074657374206b65792e' : undefined;
          const file = await BloomFile.from(new URL(`/${name}.bloom`, location.origin), { key, hold });
          const present = await file.containsMany(questions('key', keys));
          const absent = questions('absent', 1000);
          const answers = await file.containsMany(absent);
          const wrong = absent.filter((_, at) => answers[at]);
          told.push({ file: name, keys: present.filter(Boolean).length, falsePositives: wrong.length, first: wrong[0] ?? 'none' });
          file.free();
        }
      }
      return told;
    }, table);
    assert.deepEqual(found, [...table, ...table]);
  }));
});

test('a file that changes under way is noticed in a window', async () => {
  const [before, after] = ['sound', 'other'].map((name) => readFileSync(made(name)));
  assert.equal(before.length, after.length);
  // By its version, where the server tells one, and by its pages.
  for (const tag of ['"1"', undefined]) {
    const files = { '/changing': before, tag };
    await serve(files, {}, (address) => window(address, async (page) => {
      const ask = (keys) => page.evaluate(async (keys) => {
        const { BloomFile } = await import(new URL('/index.js', location.origin));
        globalThis.file ??= await BloomFile.from(new URL('/changing', location.origin), { hold: 0 });
        return globalThis.file.containsMany(keys).catch((error) => error.code);
      }, keys);
      assert.deepEqual(await ask(['key-5']), [true]);
      files['/changing'] = after;
      if (tag) files.tag = '"2"';
      assert.equal(await ask(questions('key', 10_000)), 'changed');
    }));
  }
});

test('a server of another origin says what may be seen of it, or the error says what is missing', async () => {
  const shared = { 'access-control-allow-origin': '*', 'access-control-allow-headers': 'range' };
  const files = { '/sound.bloom': readFileSync(made('sound')), tag: '"1"' };
  await serve({}, {}, (address) => window(address, async (page) => {
    const ask = (other) => page.evaluate(async (other) => {
      const { BloomFile } = await import(new URL('/index.js', location.origin));
      return BloomFile.from(new URL('/sound.bloom', other), { hold: 0 }).then((file) => file.contains('key-5'), (error) => `${error.code}: ${error.message}`);
    }, other);
    await serve(files, shared, async (other) => {
      assert.match(await ask(other), /^read: .*Access-Control-Expose-Headers: Content-Range, ETag/);
    });
    await serve(files, { ...shared, 'access-control-expose-headers': 'Content-Range, ETag' }, async (other) => {
      assert.equal(await ask(other), true);
    });
  }));
});
