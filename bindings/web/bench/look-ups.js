// Look-ups per second in Chromium, beside other packages of npm on the same keys. Needs esbuild:
// `npm install --no-save esbuild buffer`, then `node bench/look-ups.js`.
import { writeFileSync } from 'node:fs';

import { build } from 'esbuild';
import { chromium } from 'playwright-core';

import { bloomfile, folder } from '../test/files.js';

const KEYS = 1_000_000;
const page = (number) => `https://example.org/${(number * 2654435761) % 2 ** 32}/page-${number}`;
writeFileSync(`${folder}/keys`, Array.from({ length: KEYS }, (_, number) => page(number)).join('\n'));
for (const [name, more] of [['line', []], ['sealed', ['--sealed']]]) {
  bloomfile('build', '-q', `${folder}/${name}.bloom`, `${folder}/keys`, '-n', String(KEYS), '-p', '0.01', ...more);
}

const { outputFiles } = await build({
  stdin: {
    contents: `
      import './bench/buffer.js';
      import * as bloomFilters from 'bloom-filters';
      import { BloomFilter } from 'bloomfilter';
      import { BloomFile } from './pkg/index.js';
      const page = ${page};
      const KEYS = ${KEYS};
      const rate = (name, asked, milliseconds, found) => ({ name, perSecond: asked / milliseconds * 1000, found });
      window.measure = async (files, wasm) => {
        const asked = Array.from({ length: KEYS }, (_, number) => page(2 * number));
        const results = [];
        for (const [name, bytes] of Object.entries(files)) {
          const file = await BloomFile.from(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)), { wasm });
          await file.containsMany(asked.slice(0, 100_000));
          for (let round = 0; round < 15; round += 1) {
            const start = performance.now();
            const found = await file.containsMany(asked);
            results.push(rate('bloomfile, ' + name + ', containsMany', KEYS, performance.now() - start, found.filter(Boolean).length));
          }
          const start = performance.now();
          let found = 0;
          for (let at = 0; at < 200_000; at += 1) found += await file.contains(asked[at]);
          results.push(rate('bloomfile, ' + name + ', contains', 200_000, performance.now() - start, found));
        }
        const jason = new BloomFilter(9585059, 7);
        for (let number = 0; number < KEYS; number += 1) jason.add(page(number));
        for (let round = 0; round < 15; round += 1) {
          const start = performance.now();
          let found = 0;
          for (const key of asked) found += jason.test(key);
          results.push(rate('bloomfilter', KEYS, performance.now() - start, found));
        }
        const folly = bloomFilters.BloomFilter.create(100_000, 0.01);
        for (let number = 0; number < 100_000; number += 1) folly.add(page(number));
        const start = performance.now();
        let found = 0;
        for (let at = 0; at < 100_000; at += 1) found += folly.has(asked[at]);
        results.push(rate('bloom-filters (100,000 keys)', 100_000, performance.now() - start, found));
        return results;
      };`,
    resolveDir: new URL('..', import.meta.url).pathname,
  },
  bundle: true, format: 'iife', write: false, platform: 'browser', logLevel: 'error',
  define: { global: 'window', 'import.meta.url': '"http://localhost/"' },
  external: ['node:*'],
});
const { readFileSync } = await import('node:fs');
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
const tab = await browser.newPage();
tab.on('pageerror', (error) => console.error(String(error)));
await tab.goto('about:blank');
await tab.addScriptTag({ content: `window.process ??= { env: {} };\n${outputFiles[0].text}` });
const base64 = (path) => readFileSync(path).toString('base64');
const files = { line: base64(`${folder}/line.bloom`), sealed: base64(`${folder}/sealed.bloom`) };
const wasm = base64(new URL('../pkg/bloomfile_bg.wasm', import.meta.url));
const results = await tab.evaluate(([files, wasm]) => window.measure(files, Uint8Array.from(atob(wasm), (c) => c.charCodeAt(0)).buffer), [files, wasm]);
// The best of the rounds of each: others may have the processor, too.
const best = new Map();
for (const result of results) {
  if (!(best.get(result.name)?.perSecond > result.perSecond)) best.set(result.name, result);
}
for (const { name, perSecond, found } of best.values()) console.log(`${name}: ${(perSecond / 1e6).toFixed(2)} M/s (${found} found)`);
await browser.close();
