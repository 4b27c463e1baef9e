// One spelling for each URL, and the keys that it is asked by. The list is built with these, too: what
// is spelt otherwise there would never be found.

/** Percent-decodes again and again, until nothing changes. */
function decode(text) {
  for (let round = 0; round < 16; round += 1) {
    const decoded = text.replace(/%([0-9a-fA-F]{2})/g, (_, digits) => String.fromCharCode(parseInt(digits, 16)));
    if (decoded === text) break;
    text = decoded;
  }
  return text;
}

/** Percent-encodes what is no printable ASCII character, and `%` and `#`. */
const encode = (text) => text.replace(/[^!-~]|[%#]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`);

/** The host, path and query of a URL in one spelling; nothing of what is no web address. */
export function canonical(text) {
  let url;
  try {
    // Tabs and line ends go, `..` is resolved, hosts become lower-case ASCII, default ports go.
    url = new URL(text.trim());
  } catch {
    return undefined;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return undefined;
  const host = url.host.replace(/\.+(?=:|$)/, '').replace(/\.{2,}/g, '.');
  if (host === '') return undefined;
  let path = encode(decode(url.pathname)).replace(/\/{2,}/g, '/');
  // Decoding may have brought `..` to light.
  const parts = [];
  for (const part of path.split('/').slice(1)) {
    if (part === '..') parts.pop();
    else if (part !== '.') parts.push(part);
  }
  path = `/${parts.join('/')}`;
  const query = url.search ? `?${encode(decode(url.search.slice(1)))}` : '';
  return { host, path, query };
}

/** The key that stands for a listed URL: `host/path?query`. The scheme and the fragment are no part of it. */
export function keyOf(text) {
  const found = canonical(text);
  return found && `${found.host}${found.path}${found.query}`;
}

/**
 * The keys that a URL is asked by: a list may name a whole host or folder. With and without the query,
 * the folders above it, on the host and on up to four domains above it.
 */
export function keysOf(text) {
  const found = canonical(text);
  if (!found) return [];
  const { host, path, query } = found;
  const hosts = [host];
  if (!/^[\d.:]+$|^\[/.test(host)) {
    const labels = host.split('.');
    for (let count = Math.min(5, labels.length - 1); count >= 2; count -= 1) hosts.push(labels.slice(-count).join('.'));
  }
  const paths = [path + query, path];
  const folders = path.split('/').slice(1, -1);
  for (let count = 0; count <= Math.min(folders.length, 4); count += 1) paths.push(`/${folders.slice(0, count).map((it) => `${it}/`).join('')}`);
  return [...new Set(hosts.flatMap((host) => paths.map((path) => host + path)))];
}
