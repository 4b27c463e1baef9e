// A stand-in for both sides: the site with the filter, and the database of listed URLs.
// `node server.js malicious.bloom keys.txt`
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

import { keyOf } from './canonical.js';

const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', wasm: 'application/wasm' };
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const escape = (text) => text.replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

export function serve(filter, keys, port = 0) {
  const listed = new Set(readFileSync(keys, 'utf8').split('\n').filter(Boolean));
  const state = { questions: 0, visits: 0 };
  const files = { '/malicious.bloom': filter, '/': here('index.html') };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/database') {
      state.questions += 1;
      let body = '';
      for await (const part of request) body += part;
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
    const packed = /^\/bloomfile\/([\w.]+)$/.exec(url.pathname)?.[1];
    const own = /^\/([\w-]+\.(?:js|html))$/.exec(url.pathname)?.[1];
    const path = files[url.pathname] ?? (packed ? here(`../../bindings/web/pkg/${packed}`) : own && here(own));
    try {
      const bytes = readFileSync(path);
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
  const [filter, keys] = process.argv.slice(2);
  const { url } = await serve(filter, keys, 8080);
  console.log(`open ${url}`);
}
