// A stand-in for both sides: the site with the published filter, and the database of listed URLs.
// `node server.js published keys.txt`
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

import { keyOf } from './canonical.js';

const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', json: 'application/json', wasm: 'application/wasm' };
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

export function serve(published, keys, port = 0) {
  /** Questions that the database was asked, pages that were visited, and what was sent: path and bytes. */
  const state = { questions: 0, visits: 0, log: [] };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/database') {
      state.questions += 1;
      let body = '';
      for await (const part of request) body += part;
      // Read again each time: the list may have grown.
      let listed;
      try {
        listed = new Set(readFileSync(keys, 'utf8').split('\n').filter(Boolean));
      } catch {
        return response.writeHead(500).end();
      }
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ listed: JSON.parse(body).some((key) => listed.has(key)) }));
    }
    if (url.pathname === '/visit') {
      // In place of the address itself, which a test cannot reach.
      state.visits += 1;
      const key = escape(keyOf(url.searchParams.get('url') ?? '') ?? 'no web address');
      response.writeHead(200, { 'content-type': TYPES.html });
      return response.end(`<!DOCTYPE html><html lang="en"><title>Visited</title><h1>Visited</h1><p>${key}</p><p><a href="./">Back</a></p>`);
    }
    const filter = /^\/published\/([\w-][\w.-]*)$/.exec(url.pathname)?.[1];
    const packed = /^\/bloomfile\/([\w.]+)$/.exec(url.pathname)?.[1];
    const own = url.pathname === '/' ? 'index.html' : /^\/([\w-]+\.(?:js|html))$/.exec(url.pathname)?.[1];
    const path = filter ? `${published}/${filter}` : packed ? here(`../../bindings/web/pkg/${packed}`) : own && here(own);
    try {
      const bytes = readFileSync(path);
      state.log.push({ path: url.pathname, bytes: bytes.length });
      response.writeHead(200, { 'content-type': TYPES[path.split('.').at(-1)] ?? 'application/octet-stream' });
      return response.end(bytes);
    } catch {
      return response.writeHead(404).end();
    }
  });
  return new Promise((listening) => {
    server.listen(port, '127.0.0.1', () => listening({ server, state, url: `http://127.0.0.1:${server.address().port}/` }));
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [published, keys] = process.argv.slice(2);
  const { url } = await serve(published, keys, 8080);
  console.log(`open ${url}`);
}
