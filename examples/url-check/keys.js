// Makes the keys of a list of URLs, one on each line of standard input; what is no web address is left
// out, and told. `node keys.js < urls.txt > keys.txt`
import { createInterface } from 'node:readline';

import { keyOf } from './canonical.js';

let left = 0;
for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  const key = keyOf(line);
  if (key) process.stdout.write(`${key}\n`);
  else if (line.trim()) left += 1;
}
if (left) console.error(`${left} lines are no web addresses`);
