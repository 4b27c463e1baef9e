const { BloomFile, BloomFileError, JOB, compare, explain, plain, ready } = library;
const { Reporter } = glue;

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
const percent = (share) => `${(100 * share).toLocaleString('en', { maximumSignificantDigits: 3 })}\u00a0%`;
const size = (bytes) => {
  let value = Number(bytes);
  for (const unit of ['bytes', 'KiB', 'MiB', 'GiB']) {
    if (value < 1024 || unit === 'GiB') return `${value.toLocaleString('en', { maximumFractionDigits: unit === 'bytes' ? 0 : 1 })} ${unit}`;
    value /= 1024;
  }
};
const plural = (number, word) => `${count(number)} ${word}${Number(number) === 1 ? '' : 's'}`;

/** Answers that are shown one by one; of more, the count. */
const SHOWN = 500;
/** Keys that are asked at once. */
const BATCH = 50_000;
/** Pages that are listed at once. */
const LISTED = 65_536;

let current;
let reporter;
let verification;

const MEANING = {
  clean: 'It was closed in good order.',
  live: 'It is being written.',
  crashed: 'Its writer did not close it, or has it open: what its journal holds counts here.',
  damaged: 'It has damaged pages.',
};

function say(message) {
  $('status').textContent = message;
}

function fail(error) {
  say('');
  $('error').textContent = error instanceof BloomFileError ? error.message : String(error);
}

async function open(file, key, wanted) {
  $('error').textContent = '';
  say(`Opening ${file.name} …`);
  $('report').hidden = true;
  $('secret').hidden = true;
  $('progress').hidden = true;
  current?.free();
  reporter?.free();
  current = reporter = verification = undefined;
  // What is asked of the old one is not shown with the new one.
  asked += 1;
  $('count').textContent = '';
  $('answers').hidden = true;
  try {
    const opened = await BloomFile.from(file, { key });
    if (!wanted()) return opened.free();
    current = opened;
    current.file = file;
  } catch (error) {
    if (!wanted()) return;
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
  $('comparison').replaceChildren();
  $('one').replaceChildren();
  $('form').textContent = formOf(inspection);
  const segment = $('segment');
  segment.replaceChildren(...inspection.segments.map((_, index) => text('option', String(index), { value: index })));
  $('file-title').focus();
  const shown = current;
  await list(shown, inspection, file.name);
  if (shown !== current) return;
  await Promise.all([health(inspection), map(), ask()]);
}

/** Begins the report of `bloomfile inspect --html` with what the page tables say. */
async function list(file, inspection, name) {
  let made;
  try {
    for (const [segment, { pages }] of inspection.segments.entries()) {
      for (let first = 0; first < pages; first += LISTED) {
        await file[JOB]((core) => {
          made ??= new Reporter(core, name);
          return core.pages(segment, first, Math.min(pages, first + LISTED));
        }, (job) => made.take(job));
      }
    }
    if (file === current) [reporter, made] = [made, undefined];
  } finally {
    made?.free();
  }
  if (file !== current) return;
  draw();
}

/** Shows what the report says by now. Its HTML comes from the core, which leaves no markup in texts. */
function draw() {
  const { what, ...parts } = reporter.sections();
  $('file-kind').textContent = what;
  for (const [id, html] of Object.entries(parts)) $(id).innerHTML = html;
}

function facts(pairs) {
  return pairs.map(([name, value]) => row([text('th', name, { scope: 'row' }), text('td', value)]));
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
    const told = (part) => (share) => file === current && ($('progress').value = (part + share) / 2);
    const found = await file[JOB]((core) => core.verify(), (job) => {
      if (file === current) reporter.take(job);
      return plain(job.result());
    }, told(0));
    // Another one was opened, and this one let go of.
    if (file !== current) return;
    await file[JOB]((core) => core.loads(), (job) => file === current && reporter.take(job), told(1));
    const bytes = file.held && (await file.bytes(0, file.length));
    if (file !== current) return;
    if (bytes) reporter.digest(bytes);
    verification = found;
    draw();
  } catch (error) {
    if (file === current) fail(error);
    return;
  } finally {
    if (file === current) $('progress').hidden = true;
  }
  const { pages, pages_damaged: damaged, pages_unverifiable: doubtful } = verification;
  const { health, unverifiable_pages } = current.inspect();
  const kept = Number(unverifiable_pages);
  const [kind, what] = damaged.length
    ? ['bad', `Damaged: ${count(damaged.length)} of ${plural(pages, 'page')} are not what was written, the first is page ${count(damaged[0])}. Keys that fall on them cannot be answered. Restore the file from a copy, or run “bloomfile repair”.`]
    : doubtful.length
      ? ['warn', `${count(doubtful.length)} of ${plural(pages, 'page')} ${doubtful.length === 1 ? 'holds' : 'hold'} more than checksums and journal explain: keys that were added and not synced, or damage.`]
      : kept
      ? ['warn', `${plural(kept, 'page')} kept by a recovery, not verifiable then; since then all are as written.`]
      : ['good', pages === 1 ? 'Its page is as written.' : `All ${plural(pages, 'page')} are as written.`];
  $('health').className = `note ${kind}`;
  $('health-text').textContent = `${what} ${MEANING[health]}`;
  await map();
}

async function map() {
  const file = current;
  try {
    const ranges = file.held || verification ? await file.explain() : await file.explain({ data: false });
    if (file === current) drawMap(ranges, file.length);
  } catch (error) {
    // One that was let go of in between.
    if (file === current) throw error;
  }
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
  $('legend').replaceChildren(text('span', `${label} Small parts are drawn wider than they are.`), document.createElement('br'), ...Object.entries(names).map(([name, meaning]) => {
    const entry = text('span', meaning, { class: 'kind' });
    entry.prepend(text('span', '', { class: `swatch ${name}`, 'aria-hidden': 'true' }));
    return entry;
  }));
  $('ranges').tBodies[0].replaceChildren(...ranges.slice(0, 5000).map((range) => {
    const line = row([text('td', `${range.start}–${range.end - 1}`), text('td', range.structure), text('td', range.field), text('td', range.value), text('td', range.note)]);
    if (isWrong(range)) line.className = 'wrong';
    return line;
  }));
}

async function jump(event) {
  event.preventDefault();
  const file = current;
  const segments = file.inspect().segments;
  const index = Number($('segment').value);
  const segment = segments[index];
  const page = Math.min(Math.max(0, Math.floor(Number($('page').value)) || 0), segment.pages - 1);
  $('page').value = page;
  try {
    const start = Number(segment.offset) + Number(segment.table_bytes) + 4096 * page;
    const [[entry], bytes] = await Promise.all([file.pages(index, page, page + 1), file.bytes(start, start + 4096)]);
    if (file !== current) return;
    const number = segments.slice(0, index).reduce((sum, it) => sum + it.pages, 0) + page;
    const state = !verification
      ? 'it was not checked yet'
      : verification.pages_damaged.includes(number)
        ? 'it is damaged: not what was written'
        : verification.pages_unverifiable.includes(number)
          ? 'it holds more than checksums and journal explain: keys that were added and not synced, or damage'
          : 'it is as written';
    const crc = entry.crc.toString(16).padStart(8, '0');
    $('one').replaceChildren(text('p', `Page ${count(page)} of segment ${index}, bytes ${count(start)} to ${count(start + 4095)}: ${state}. Its entry: CRC-32 ${crc}, ${plural(entry.ones, verification?.kind === 'sealed' ? 'key' : 'one')}.`), text('div', hex(bytes, start), { class: 'hex', tabindex: 0, role: 'region', 'aria-label': `Bytes of page ${page}` }));
  } catch (error) {
    if (file === current) fail(error);
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

/** The words for how the keys of a file are written: `keys.form` and `keys.encoding` of its metadata. */
const wordsOf = ({ metadata }) => [...(metadata['keys.form']?.split(/\s+/) ?? []), metadata['keys.encoding']].filter(Boolean);

/** How keys are read, where they are no keys as they stand. */
function formOf(inspection) {
  const meaning = { crlf: 'CR LF ends a line', trim: 'white space around them goes', lower: 'in lower case', hex: 'as hex digits', le64: 'as whole numbers (le64)', be64: 'as whole numbers (be64)', decimal: 'as whole numbers (decimal)' };
  const parts = wordsOf(inspection).map((word) => meaning[word] ?? word);
  return parts.length ? `Keys are read as the file says: ${parts.join(', ')}.` : '';
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
  // A field has no CR.
  await answer(value.replace(/\n$/, '').split('\n'), () => turn === asked);
}

const ANSWERS = [['absent', 'no, certainly'], ['maybe', 'maybe'], ['damaged', 'cannot be told: its page is damaged'], ['refused', 'no key: it is not written as the keys of this file are']];

async function answer(lines, wanted, note = '') {
  const found = [0, 0, 0, 0];
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
    if (!wanted()) return;
    $('count').textContent = '';
    $('answers').hidden = true;
    fail(error);
    return;
  }
  $('error').textContent = '';
  const [absent, maybe, damaged, refused] = found;
  const more = lines.length > SHOWN ? ` The first ${count(SHOWN)} are shown.` : '';
  const none = refused ? `, ${count(refused)} ${refused === 1 ? 'is no key' : 'are no keys'}` : '';
  const lost = damaged ? `, ${count(damaged)} cannot be told` : '';
  $('count').textContent = `${plural(lines.length, 'key')}: ${count(maybe)} may be in, ${count(absent)} certainly not${lost}${none}.${more}${note}`;
  $('answers').hidden = false;
  $('answers').tBodies[0].replaceChildren(...shown.map(([key, answer]) => row([key === '' ? text('td', '(no characters)', { class: 'soft' }) : text('td', key), text('td', ANSWERS[answer][1], { class: ANSWERS[answer][0] })])));
}

async function askList(file) {
  if (!current) return;
  const turn = ++asked;
  const wanted = () => turn === asked;
  $('keys').value = '';
  $('answers').hidden = true;
  $('count').textContent = `Reading ${file.name} …`;
  const words = wordsOf(current.inspect());
  let lines;
  try {
    // Bytes that are no text would become other keys, which are certainly not in.
    lines = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer()).replace(/\n$/, '').split('\n');
  } catch (error) {
    if (!wanted()) return;
    $('count').textContent = '';
    fail(`${file.name} cannot be read as a list of keys in UTF-8: ${error.message ?? error}`);
    return;
  }
  if (!wanted()) return;
  // As the command has it: a CR is part of its key unless the file says otherwise.
  if (words.includes('crlf')) lines = lines.map((line) => line.replace(/\r$/, ''));
  const note = lines[0].endsWith('\r') && !words.includes('trim') ? ' Its lines end in CR LF, and each CR was taken as part of its key.' : '';
  await answer(lines, wanted, note);
}

let comparisons = 0;

async function compareWith(file) {
  if (!current) return;
  const target = $('comparison');
  const turn = ++comparisons;
  const opened = current;
  const wanted = () => turn === comparisons && opened === current;
  const bar = text('progress', '', { max: 1, value: 0, 'aria-label': 'Share of the pages that were compared' });
  target.replaceChildren(text('p', `Comparing with ${file.name} … `), bar);
  try {
    const found = await compare(opened.file, file, { progress: (share) => (bar.value = share) });
    if (!wanted()) return;
    const differing = found.parameters.filter((it) => JSON.stringify(it.a, big) !== JSON.stringify(it.b, big));
    const parts = [];
    const compared = found.contents.compared;
    if (compared) {
      const words = { equal: 'They have the same bits.', subset: 'The other file has all bits of the open one, and more.', superset: 'The open file has all bits of the other one, and more.', neither: 'Each has bits that the other has not.' };
      parts.push(text('p', words[compared.relation] ?? `Relation: ${compared.relation}`));
      const overlap = compared.overlap ?? {};
      const names = { a: 'Keys of the open file', b: 'Keys of the other file', union: 'Keys in either', intersection: 'Keys in both', jaccard: 'Likeness (Jaccard)', containment_a_in_b: 'Of the open file, in the other', containment_b_in_a: 'Of the other file, in the open one' };
      const shares = ['jaccard', 'containment_a_in_b', 'containment_b_in_a'];
      const rows = Object.entries(names).filter(([name]) => overlap[name]).map(([name, meaning]) => [meaning, `about\u00a0${(shares.includes(name) ? percent : count)(overlap[name].value)}`]);
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
      table.append(text('caption', 'Parameters that differ', { class: 'hidden' }), head, ...differing.map((it) => row([text('th', it.name ?? it.parameter, { scope: 'row' }), text('td', shownValue(it, it.a)), text('td', shownValue(it, it.b))])));
      parts.push(table);
    } else {
      parts.push(text('p', 'They were made with the same parameters.', { class: 'soft' }));
    }
    target.replaceChildren(...parts);
  } catch (error) {
    if (!wanted()) return;
    target.replaceChildren(text('p', error.message ?? String(error), { class: 'bad', role: 'alert' }));
  }
}

/** Counts of a comparison as they are written elsewhere; a seed is no count. */
const shownValue = ({ name }, value) => (/^\d+$/.test(value) && name !== 'seed' ? BigInt(value).toLocaleString('en') : String(value));
const big = (_, value) => (typeof value === 'bigint' ? String(value) : value);

let last;
let turns = 0;
/** Opens a file; of one that another was opened after, nothing is shown any more. */
const openFile = (file, key) => {
  last = file;
  const turn = ++turns;
  const wanted = () => turn === turns;
  return open(file, key, wanted).catch((error) => wanted() && fail(error));
};

/** What is done with a file that is chosen, also if it is the same one again: it may have changed. */
const chosen = (id, work) => $(id).addEventListener('change', ({ target }) => {
  const file = target.files[0];
  target.value = '';
  if (file) work(file);
});
chosen('file', (file) => openFile(file));
$('unlock').addEventListener('click', () => last && openFile(last, $('key').value.trim()));
$('key').addEventListener('keydown', (event) => event.key === 'Enter' && $('unlock').click());
$('verify').addEventListener('click', () => verify().catch(fail));
$('keys').addEventListener('input', () => ask());
chosen('list', askList);
chosen('other', compareWith);
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
