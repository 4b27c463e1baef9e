// Look-ups per second in Chromium, beside other packages of npm on the same keys. Needs esbuild:
// `npm install --no-save esbuild buffer`, then `node bench/look-ups.js`.
import { writeFileSync } from 'node:fs';

import { build } from 'esbuild';
import { chromium } from 'playwright-core';

import { bloomfile, folder } from '../test/files.js';

const KEYS = 1_000_000;
const ROUNDS = 15;
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
        const open = (bytes) => BloomFile.from(Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)), { wasm });
        const line = await open(files.line);
        const sealed = await open(files.sealed);
        const jason = new BloomFilter(9585059, 7);
        for (let number = 0; number < KEYS; number += 1) jason.add(page(number));
        const folly = bloomFilters.BloomFilter.create(100_000, 0.01);
        for (let number = 0; number < 100_000; number += 1) folly.add(page(number));
        // One after the other in each round: others may have the processor as well, or slow it down.
        for (let round = 0; round < ${ROUNDS}; round += 1) {
          const start = performance.now();
          const found = await line.containsMany(asked);
          results.push(rate('bloomfile, line, containsMany', KEYS, performance.now() - start, found.filter(Boolean).length));
          const then = performance.now();
          let others = 0;
          for (const key of asked) others += jason.test(key);
          results.push(rate('bloomfilter', KEYS, performance.now() - then, others));
          const after = performance.now();
          const more = await sealed.containsMany(asked);
          results.push(rate('bloomfile, sealed, containsMany', KEYS, performance.now() - after, more.filter(Boolean).length));
        }
        for (let round = 0; round < 3; round += 1) {
          let start = performance.now();
          let found = 0;
          for (let at = 0; at < 200_000; at += 1) found += await line.contains(asked[at]);
          results.push(rate('bloomfile, line, contains', 200_000, performance.now() - start, found));
          start = performance.now();
          found = 0;
          for (let at = 0; at < 50_000; at += 1) found += folly.has(asked[at]);
          results.push(rate('bloom-filters (100,000 keys)', 50_000, performance.now() - start, found));
        }
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
const names = [...new Set(results.map(({ name }) => name))];
const rates = (name) => results.filter((it) => it.name === name).map((it) => it.perSecond);
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
for (const name of names) {
  const [all, { found }] = [rates(name), results.find((it) => it.name === name)];
  console.log(`${name}: best ${(Math.max(...all) / 1e6).toFixed(2)}, median ${(median(all) / 1e6).toFixed(2)} M/s (${found} found)`);
}
const [ours, theirs] = [rates('bloomfile, line, containsMany'), rates('bloomfilter')];
const times = ours.map((rate, round) => rate / theirs[round]);
console.log(`times bloomfilter: best of each ${(Math.max(...ours) / Math.max(...theirs)).toFixed(2)}, median of the rounds ${median(times).toFixed(2)}, lowest ${Math.min(...times).toFixed(2)}`);
await browser.close();
