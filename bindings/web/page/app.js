const { BloomFile, BloomFileError, compare, explain, ready } = library;

const $ = (id) => document.getElementById(id);
const text = (tag, content, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = content;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const svg = (tag, attributes) => {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const row = (cells) => {
  const element = document.createElement('tr');
  element.append(...cells);
  return element;
};

const count = (number) => Number(number).toLocaleString('en', { maximumFractionDigits: 0 });
const percent = (share) => `${(100 * share).toLocaleString('en', { maximumSignificantDigits: 3 })} %`;
const size = (bytes) => {
  let value = Number(bytes);
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024 || unit === 'GiB') return `${value.toLocaleString('en', { maximumFractionDigits: unit === 'bytes' ? 0 : 1 })} ${unit}`;
    value /= 1024;
  }
};
const tries = (rate) => (rate > 0 ? `1 in ${count(Math.round(1 / rate))}` : 'of absent keys');
const plural = (number, word) => `${count(number)} ${word}${Number(number) === 1 ? '' : 's'}`;

/** Answers that are shown one by one; of more, the count. */
const SHOWN = 500;
/** Keys that are asked at once. */
const BATCH = 50_000;
/** Two files up to this length together are compared. */
const COMPARED = 512 << 20;
/** Pixels of a heat map. */
const PIXELS = 4096;

let current;
let verification;

const MEANING = {
  clean: 'It was closed in good order.',
  live: 'It is being written.',
  crashed: 'Its writer did not close it, or has it open: what its journal holds counts here.',
  damaged: 'It has damaged pages.',
};
const KINDS = { plain: 'Bloom filter', counting: 'counting Bloom filter', sealed: 'sealed filter' };

function say(message) {
  $('status').textContent = message;
}

function fail(error) {
  say('');
  $('error').textContent = error instanceof BloomFileError ? error.message : String(error);
}

async function open(file, key) {
  $('error').textContent = '';
  say(`Opening ${file.name} …`);
  $('report').hidden = true;
  $('secret').hidden = true;
  current?.free();
  current = verification = undefined;
  try {
    current = await BloomFile.from(file, { key });
    current.file = file;
  } catch (error) {
    if (error.code === 'wrong-key') $('secret').hidden = false;
    fail(error);
    await damagedHeaders(file, error);
    return;
  }
  const inspection = current.inspect();
  if (inspection.key_fingerprint && !key) $('secret').hidden = false;
  say('');
  await show(file, inspection);
}

/** What can still be told of a file that cannot be opened. */
async function damagedHeaders(file, error) {
  if (error.code !== 'damaged') return;
  const ranges = await explain(file).catch(() => undefined);
  if (!ranges) return;
  $('report').hidden = false;
  for (const section of $('report').children) section.hidden = !section.contains($('map'));
  drawMap(ranges, file.size);
  $('jump').hidden = true;
}

async function show(file, inspection) {
  for (const section of $('report').children) section.hidden = false;
  $('jump').hidden = false;
  $('report').hidden = false;
  $('file-title').textContent = file.name;
  const kind = KINDS[inspection.kind];
  const keyed = inspection.key_fingerprint ? 'keyed ' : '';
  $('file-kind').textContent = `A ${keyed}${kind} (bloomfile format ${inspection.format_version}), ${size(file.size)}`;
  cards(inspection);
  parameters(inspection);
  metadata(inspection);
  $('comparison').replaceChildren();
  $('one').replaceChildren();
  const segment = $('segment');
  segment.replaceChildren(...inspection.segments.map((_, index) => text('option', String(index), { value: index })));
  $('file-title').focus();
  await Promise.all([health(inspection), fill(inspection), map(), ask()]);
}

function cards(inspection) {
  const cells = inspection.segments.reduce((sum, it) => sum + Number(it.cells), 0);
  const ones = inspection.segments.reduce((sum, it) => sum + Number(it.ones), 0);
  const sealed = inspection.kind === 'sealed';
  const capacity = inspection.capacity ? `made for ${count(inspection.capacity)}` : 'made for no number in particular';
  const list = [
    [sealed ? 'Keys' : 'Keys, about', count(Math.round(inspection.keys)), capacity],
    sealed
      ? ['Bits per key', (8 * Number(inspection.segments[0].data_bytes) / Math.max(ones, 1)).toFixed(2), plural(inspection.segments[0].pages, 'page')]
      : ['Bits set', percent(ones / Math.max(cells, 1)), `${count(ones)} of ${count(cells)}`],
    ['False positives now', percent(inspection.rate_now), tries(inspection.rate_now)],
    ['False positives at capacity', inspection.rate_at_capacity === null ? '–' : percent(inspection.rate_at_capacity), inspection.rate_at_capacity === null ? 'no capacity was named' : tries(inspection.rate_at_capacity)],
  ];
  $('cards').replaceChildren(...list.map(([term, value, more]) => {
    const card = text('div', '', { class: 'card' });
    card.append(text('dt', term), text('dd', value), text('dd', more));
    return card;
  }));
}

function facts(pairs) {
  return pairs.map(([name, value]) => row([text('th', name, { scope: 'row' }), text('td', value)]));
}

function parameters(it) {
  const layout = (segment) => {
    const { layout, rows, blocks, row_cells } = segment.geometry;
    return layout === 'sealed' ? `sealed, ${plural(blocks, 'page')}` : `${layout}: ${count(blocks)} × ${rows} × ${count(row_cells)}`;
  };
  const pairs = [
    ['Layout', it.segments.map(layout).join('; ')],
    ['Segments', count(it.segments.length)],
    ['When full', String(it.when_full)],
    ['Rate asked for', it.target_rate === null ? '–' : percent(it.target_rate)],
    ['Adds that changed it', count(it.segments.reduce((sum, segment) => sum + Number(segment.adds), 0))],
    ['Data', size(it.segments.reduce((sum, segment) => sum + Number(segment.data_bytes), 0))],
    ['Journal', `${size(it.journal_bytes)}${it.journal_records ? `, ${plural(it.journal_records, 'record')}` : ''}`],
    ['Hash', it.key_fingerprint ? `${it.hash}, secret ${it.key_fingerprint}` : `${it.hash}, seed ${it.seed}`],
    ['Identity', it.uuid],
    ['Mark', String(it.mark)],
    ['Slot, epoch', `${it.sequence}, ${it.epoch}`],
  ];
  if (it.generations) pairs.splice(2, 0, ['Generations', count(it.generations)]);
  $('parameters').tBodies[0].replaceChildren(...facts(pairs));
}

function metadata(inspection) {
  const pairs = Object.entries(inspection.metadata);
  if (pairs.length === 0) {
    $('metadata').replaceChildren(text('p', 'None was given.', { class: 'soft' }));
    return;
  }
  const table = document.createElement('table');
  table.append(text('caption', 'Metadata', { class: 'hidden' }));
  table.append(...facts(pairs));
  $('metadata').replaceChildren(table);
}

async function health(inspection) {
  const button = $('verify');
  button.textContent = `Check every page (reads ${size(current.length)})`;
  button.hidden = false;
  $('health').className = 'note';
  $('health-text').textContent = `${MEANING[inspection.health]} Checksums of headers and page tables are right.`;
  if (current.held) await verify();
}

async function verify() {
  const file = current;
  $('verify').hidden = true;
  $('progress').hidden = file.held;
  try {
    const found = await file.verify((share) => ($('progress').value = share));
    if (file !== current) return;
    verification = found;
  } catch (error) {
    fail(error);
    return;
  } finally {
    $('progress').hidden = true;
  }
  const { pages, pages_damaged: damaged, pages_unverifiable: doubtful } = verification;
  const [kind, what] = damaged.length
    ? ['bad', `Damaged: ${count(damaged.length)} of ${plural(pages, 'page')} are not what was written, the first is page ${count(damaged[0])}. Keys that fall on them cannot be answered. Restore the file from a copy, or run “bloomfile repair”.`]
    : doubtful.length
      ? ['warn', `${count(doubtful.length)} of ${plural(pages, 'page')} hold more than checksums and journal explain.`]
      : ['good', `All ${plural(pages, 'page')} are as written.`];
  $('health').className = `note ${kind}`;
  $('health-text').textContent = `${what} ${MEANING[current.inspect().health]}`;
  await Promise.all([fill(current.inspect()), map()]);
}

async function fill(inspection) {
  const file = current;
  const parts = [];
  let first = 0;
  for (const [index, segment] of inspection.segments.entries()) {
    const share = inspection.kind === 'sealed' ? null : segment.fill;
    const name = inspection.segments.length > 1 ? `Segment ${index}: ` : '';
    const keys = `${count(Math.round(segment.keys.value))} keys`;
    const caption = share === null ? `${name}${keys} in ${plural(segment.pages, 'page')}` : `${name}${percent(share)} of its bits are set, ${keys}`;
    const figure = document.createElement('figure');
    if (share !== null) {
      const bar = svg('svg', { viewBox: '0 0 1000 24', role: 'img', 'aria-label': caption });
      bar.append(svg('rect', { class: 'track', width: 1000, height: 24, rx: 4 }), svg('rect', { class: 'bar', width: Math.max(1, 1000 * share), height: 24, rx: 4 }));
      figure.append(bar);
    }
    figure.append(text('figcaption', caption));
    if (segment.pages > 1) figure.append(await heat(file, index, segment, first));
    parts.push(figure);
    first += segment.pages;
    if (file !== current) return;
  }
  $('fill').replaceChildren(...parts);
}

/** The pages of a segment, each or several of them a pixel. */
async function heat(file, index, segment, first) {
  const sealed = segment.geometry.layout === 'sealed';
  const pixels = Math.min(segment.pages, PIXELS);
  const sums = new Float64Array(pixels);
  const counts = new Float64Array(pixels);
  for (let start = 0; start < segment.pages; start += 65_536) {
    const fills = await file.fills(index, start, Math.min(segment.pages, start + 65_536));
    for (let pair = 0; pair < fills.length; pair += 2) {
      const at = Math.floor(((start + pair / 2) * pixels) / segment.pages);
      const [ones, cells] = [fills[pair], fills[pair + 1]];
      sums[at] += cells && !sealed ? ones / cells : ones;
      counts[at] += 1;
    }
  }
  const values = sums.map((sum, at) => sum / Math.max(counts[at], 1));
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), 0);
  const columns = Math.min(pixels, 128);
  const rows = Math.ceil(pixels / columns);
  const canvas = text('canvas', '', { class: 'heat', width: columns, height: rows, role: 'img' });
  canvas.style.aspectRatio = `${columns} / ${Math.max(rows, columns / 40)}`;
  const damaged = new Set((verification?.pages_damaged ?? []).map((page) => page - first).filter((page) => page >= 0 && page < segment.pages).map((page) => Math.floor((page * pixels) / segment.pages)));
  const style = getComputedStyle(document.documentElement);
  const shades = [1, 2, 3, 4, 5, 6, 7, 8].map((shade) => style.getPropertyValue(`--h${shade}`));
  const context = canvas.getContext('2d');
  values.forEach((value, at) => {
    const shade = high > low ? Math.min(7, Math.floor((8 * (value - low)) / (high - low))) : 3;
    context.fillStyle = damaged.has(at) ? style.getPropertyValue('--bad') : shades[shade];
    context.fillRect(at % columns, Math.floor(at / columns), 1, 1);
  });
  const unit = sealed ? (value) => `${count(value)} keys` : percent;
  const label = `${plural(segment.pages, 'page')} from ${unit(low)} to ${unit(high)}${damaged.size ? `; ${plural(damaged.size, 'place')} in red with damage` : ''}`;
  canvas.setAttribute('aria-label', `Heat map of the pages: ${label}`);
  const box = document.createElement('div');
  box.append(canvas, text('p', `Pages in their order, the stronger the colour the fuller: ${label}.`, { class: 'soft' }));
  return box;
}

async function map() {
  const file = current;
  const ranges = file.held || verification ? await file.explain() : await file.explain({ data: false });
  if (file === current) drawMap(ranges, file.length);
}

const CLASSES = ['superblock', 'slot', 'journal', 'page table', 'data'];
const classOf = (structure) => {
  const found = CLASSES.find((name) => structure.includes(name));
  return found === 'page table' ? 'table' : found ?? 'spare';
};
const isWrong = ({ note, structure }) => /^wrong|damaged|lost:/.test(note) || structure.includes('damaged');

function drawMap(ranges, length) {
  // Neighbours of the same kind are drawn as one, and none so narrow that it cannot be seen.
  const runs = [];
  for (const range of ranges) {
    const kind = classOf(range.structure);
    const wrong = isWrong(range);
    const last = runs.at(-1);
    if (last && last.kind === kind && last.wrong === wrong) last.end = range.end;
    else runs.push({ kind, wrong, start: range.start, end: range.end, structure: range.structure });
  }
  const shown = runs.slice(0, 2000);
  const width = (run) => Math.max(6, (1000 * (run.end - run.start)) / length);
  const total = shown.reduce((sum, run) => sum + width(run), 0);
  const picture = svg('svg', { viewBox: '0 0 1000 60', class: 'bytes', role: 'img', preserveAspectRatio: 'none' });
  let at = 0;
  for (const run of shown) {
    const wide = (1000 * width(run)) / total;
    const rect = svg('rect', { x: at, y: 0, width: wide, height: 60, class: run.wrong ? 'broken' : run.kind });
    const title = svg('title', {});
    title.textContent = `${run.structure}: bytes ${count(run.start)} to ${count(run.end - 1)}${run.wrong ? ', damaged' : ''}`;
    rect.append(title);
    picture.append(rect);
    at += wide;
  }
  const wrong = runs.filter((run) => run.wrong).length;
  const label = `The ${size(length)} of the file, from its first byte to its last${wrong ? `; ${plural(wrong, 'stretch').replace('stretchs', 'stretches')} of it damaged` : ''}.`;
  picture.setAttribute('aria-label', label);
  picture.style.height = '3.5rem';
  $('map').replaceChildren(picture);
  const names = { superblock: 'superblock', slot: 'slots', journal: 'journal', table: 'page tables', data: 'data', broken: 'damaged' };
  $('legend').replaceChildren(text('span', `${label} Small parts are drawn wider than they are.`), document.createElement('br'), ...Object.entries(names).flatMap(([name, meaning]) => [text('span', '', { class: `swatch ${name}`, 'aria-hidden': 'true' }), text('span', meaning)]));
  $('ranges').tBodies[0].replaceChildren(...ranges.slice(0, 5000).map((range) => {
    const line = row([text('td', `${range.start}–${range.end - 1}`), text('td', range.structure), text('td', range.field), text('td', range.value), text('td', range.note)]);
    if (isWrong(range)) line.className = 'wrong';
    return line;
  }));
}

async function jump(event) {
  event.preventDefault();
  const segments = current.inspect().segments;
  const index = Number($('segment').value);
  const segment = segments[index];
  const page = Math.min(Math.max(0, Math.floor(Number($('page').value)) || 0), segment.pages - 1);
  $('page').value = page;
  try {
    const start = Number(segment.offset) + Number(segment.table_bytes) + 4096 * page;
    const [[entry], bytes] = await Promise.all([current.pages(index, page, page + 1), current.bytes(start, start + 4096)]);
    const first = segments.slice(0, index).reduce((sum, it) => sum + it.pages, 0);
    const state = !verification ? 'it was not checked yet' : verification.pages_damaged.includes(first + page) ? 'it is damaged: not what was written' : 'it is as written';
    const crc = entry.crc.toString(16).padStart(8, '0');
    $('one').replaceChildren(text('p', `Page ${count(page)} of segment ${index}, bytes ${count(start)} to ${count(start + 4095)}: ${state}. Its entry: CRC-32 ${crc}, ${plural(entry.ones, verification?.kind === 'sealed' ? 'key' : 'one')}.`), text('div', hex(bytes, start), { class: 'hex', tabindex: 0, role: 'region', 'aria-label': `Bytes of page ${page}` }));
  } catch (error) {
    fail(error);
  }
}

function hex(bytes, start) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const part = Array.from(bytes.subarray(at, at + 16), (byte) => byte.toString(16).padStart(2, '0'));
    lines.push(`${(start + at).toString(16).padStart(8, '0')}  ${part.join(' ')}`);
  }
  return lines.join('\n');
}

let asked = 0;

async function ask() {
  const turn = ++asked;
  const value = $('keys').value;
  if (!current || value === '') {
    $('count').textContent = '';
    $('answers').hidden = true;
    return;
  }
  const lines = value.replace(/\r?\n$/, '').split(/\r?\n/);
  await answer(lines, () => turn === asked);
}

const ANSWERS = [['absent', 'no, certainly'], ['maybe', 'maybe'], ['damaged', 'cannot be told: its page is damaged']];

async function answer(lines, wanted) {
  const found = [0, 0, 0];
  const shown = [];
  try {
    for (let start = 0; start < lines.length; start += BATCH) {
      const part = lines.slice(start, start + BATCH);
      const answers = await current.ask(part);
      if (!wanted()) return;
      answers.forEach((answer, at) => {
        found[answer] += 1;
        if (shown.length < SHOWN) shown.push([part[at], answer]);
      });
    }
  } catch (error) {
    $('count').textContent = '';
    $('answers').hidden = true;
    fail(error);
    return;
  }
  $('error').textContent = '';
  const [absent, maybe, damaged] = found;
  const more = lines.length > SHOWN ? ` The first ${count(SHOWN)} are shown.` : '';
  const lost = damaged ? `, ${count(damaged)} cannot be told` : '';
  $('count').textContent = `${plural(lines.length, 'key')}: ${count(maybe)} may be in, ${count(absent)} certainly not${lost}.${more}`;
  $('answers').hidden = false;
  $('answers').tBodies[0].replaceChildren(...shown.map(([key, answer]) => row([text('td', key), text('td', ANSWERS[answer][1], { class: ANSWERS[answer][0] })])));
}

async function askList(file) {
  const turn = ++asked;
  $('keys').value = '';
  $('count').textContent = `Reading ${file.name} …`;
  const lines = (await file.text()).replace(/\r?\n$/, '').split(/\r?\n/);
  await answer(lines, () => turn === asked);
}

async function compareWith(file) {
  const target = $('comparison');
  target.replaceChildren(text('p', `Comparing with ${file.name} …`));
  try {
    if (file.size + current.length > COMPARED) {
      throw new Error(`Together they are ${size(file.size + current.length)}, more than this page takes into memory; “bloomfile compare” does it.`);
    }
    const found = await compare(current.file, file);
    const differing = found.parameters.filter((it) => JSON.stringify(it.a, big) !== JSON.stringify(it.b, big));
    const parts = [];
    const compared = found.contents.compared;
    if (compared) {
      const words = { equal: 'They have the same bits.', subset: 'The other file has all bits of the open one, and more.', superset: 'The open file has all bits of the other one, and more.', neither: 'Each has bits that the other has not.' };
      parts.push(text('p', words[compared.relation] ?? `Relation: ${compared.relation}`));
      const overlap = compared.overlap ?? {};
      const names = { a: 'Keys of the open file', b: 'Keys of the other file', union: 'Keys in either', intersection: 'Keys in both', jaccard: 'Likeness (Jaccard)', containment_a_in_b: 'Of the open file, in the other', containment_b_in_a: 'Of the other file, in the open one' };
      const shares = ['jaccard', 'containment_a_in_b', 'containment_b_in_a'];
      const rows = Object.entries(names).filter(([name]) => overlap[name]).map(([name, meaning]) => [meaning, `about ${(shares.includes(name) ? percent : count)(overlap[name].value)}`]);
      if (rows.length) {
        const table = document.createElement('table');
        table.append(text('caption', 'How their keys relate', { class: 'hidden' }), ...facts(rows));
        parts.push(table);
      }
    } else {
      parts.push(text('p', `Their bits cannot be held against each other: ${found.contents.incomparable?.reason ?? 'they were built differently'}.`));
    }
    if (differing.length) {
      const table = document.createElement('table');
      const head = document.createElement('thead');
      head.append(row(['Parameter', 'Open file', file.name].map((name) => text('th', name, { scope: 'col' }))));
      table.append(text('caption', 'Parameters that differ', { class: 'hidden' }), head, ...differing.map((it) => row([text('th', it.name ?? it.parameter, { scope: 'row' }), text('td', String(it.a)), text('td', String(it.b))])));
      parts.push(table);
    } else {
      parts.push(text('p', 'They were made with the same parameters.', { class: 'soft' }));
    }
    target.replaceChildren(...parts);
  } catch (error) {
    target.replaceChildren(text('p', error.message ?? String(error), { class: 'bad', role: 'alert' }));
  }
}

const big = (_, value) => (typeof value === 'bigint' ? String(value) : value);

let last;
const openFile = (file, key) => {
  last = file;
  return open(file, key).catch(fail);
};

$('file').addEventListener('change', (event) => event.target.files[0] && openFile(event.target.files[0]));
$('unlock').addEventListener('click', () => last && openFile(last, $('key').value.trim()));
$('key').addEventListener('keydown', (event) => event.key === 'Enter' && $('unlock').click());
$('verify').addEventListener('click', () => verify());
$('keys').addEventListener('input', () => ask());
$('list').addEventListener('change', (event) => event.target.files[0] && askList(event.target.files[0]));
$('other').addEventListener('change', (event) => event.target.files[0] && compareWith(event.target.files[0]));
$('jump').addEventListener('submit', jump);
addEventListener('dragover', (event) => {
  event.preventDefault();
  document.body.classList.add('over');
});
addEventListener('dragleave', (event) => event.relatedTarget ?? document.body.classList.remove('over'));
addEventListener('drop', (event) => {
  event.preventDefault();
  document.body.classList.remove('over');
  const file = event.dataTransfer.files[0];
  if (!file) return;
  if (event.target === $('keys') && current) askList(file);
  else openFile(file);
});

/** The WebAssembly module, as text in this page. */
async function unpack() {
  const packed = Uint8Array.from(atob(MODULE), (character) => character.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(unpacked).arrayBuffer();
}

unpack().then(ready).then(() => document.body.setAttribute('data-ready', '')).catch(fail);
