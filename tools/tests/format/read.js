// Compiles bloomfile.ksy and prints what it reads from the files named, as JSON.
// Usage: node read.js MODULES bloomfile.ksy FILE...
'use strict';
const fs = require('fs');
const path = require('path');
const [modules, description, ...files] = process.argv.slice(2);
const load = name => require(path.join(modules, 'node_modules', name));
const compiler = load('kaitai-struct-compiler');
const yaml = load('js-yaml');
const KaitaiStream = load('kaitai-struct/KaitaiStream');

const ksy = yaml.load(fs.readFileSync(description, 'utf8'));
const compile = compiler.compile ? compiler : new compiler();
compile.compile('javascript', ksy, null, false).then(sources => {
  const module_ = { exports: {} };
  const source = Object.values(sources)[0];
  new Function('module', 'exports', 'require', source)(module_, module_.exports, name =>
    name.startsWith('kaitai-struct') ? KaitaiStream : require(name));
  const Bloomfile = module_.exports.Bloomfile || module_.exports;
  const read = file => {
    const parsed = new Bloomfile(new KaitaiStream(fs.readFileSync(file)));
    if (parsed._read && !parsed.superblock) parsed._read();
    const { body } = parsed.slot;
    const pairs = body.metadata.pairs.map(pair => [pair.key, pair.value]);
    return {
      uuid: Buffer.from(parsed.superblock.uuid).toString('hex'),
      seed: String(parsed.superblock.hashSeed),
      features: ['Counting', 'Growing', 'Rotating', 'Sealed', 'Keyed'].filter(name => parsed.superblock[`is${name}`]),
      journal_records: parsed.journal.reduce((sum, half) => sum + half.records.length, 0),
      key_check: parsed.superblock.keyCheck,
      state: body.state,
      file_bytes: body.fileBytes,
      metadata: Object.fromEntries(pairs),
      segments: parsed.segments.map(segment => ({
        rows: segment.record.rows,
        blocks: segment.record.blocks,
        row_cells: segment.record.rowCells,
        adds: segment.record.adds,
        offset: segment.record.offset,
        pages: segment.data.length,
        ones: segment.record.ones,
        // Undefined for other layouts, which JSON leaves out.
        sealed_pages: segment.sealedPages && segment.sealedPages.map(page => ({
          blocks: page.blocks,
          columns: page.columns,
          bends: page.bends,
          words: page.words,
        })),
        entries: segment.currentTable.entries.map(entry => [entry.crc, entry.ones]),
        end: segment.record.offset + 2 * segment.record.tableBytes + 4096 * segment.data.length,
      })),
    };
  };
  console.log(JSON.stringify(files.map(read)));
}).catch(error => {
  console.error(error);
  process.exit(1);
});
