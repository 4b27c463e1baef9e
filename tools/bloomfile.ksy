# The bloomfile format, version 1, for Kaitai Struct. The specification is format-spec.md.
meta:
  id: bloomfile
  title: bloomfile, a Bloom filter in a file
  file-extension: bloom
  endian: le
  license: CC0-1.0
doc: |
  A persistent Bloom filter: superblock, two slots of mutable state of which the newer valid one
  counts, a journal, and segments of two page tables and data each. CRCs are not checked here.
doc-ref: format-spec.md
seq:
  - id: superblock
    type: superblock
    size: 4096
  - id: slots
    type: slot
    size: 4096
    repeat: expr
    repeat-expr: 2
  - id: journal
    doc: Two halves, which epochs take in turn (F-70).
    type: 'half(superblock.cell_bits == 4 ? 32 : 16)'
    size: superblock.journal_bytes / 2
    repeat: expr
    repeat-expr: 2
instances:
  slot:
    doc: The slot that counts (F-23), as far as that can be told without checking CRCs.
    value: >-
      not slots[1].is_written ? slots[0]
      : (not slots[0].is_written ? slots[1]
      : (slots[0].sequence > slots[1].sequence ? slots[0] : slots[1]))
  segments:
    doc: The segments that the slot lists, oldest first.
    type: segment(slot.body.segments[_index])
    repeat: expr
    repeat-expr: slot.body.segment_count
types:
  superblock:
    doc: What never changes (F-10).
    seq:
      - id: magic
        contents: [0x89, BLM, 0x0d, 0x0a, 0x1a, 0x0a]
      - id: version
        type: u4
        valid: 1
      - id: page_size
        type: u4
        valid: 4096
      - id: incompatible
        type: u4
        doc: Bit 0 COUNTING, bit 1 GROWING, bit 2 ROTATING, bit 3 SEALED, bit 4 KEYED (F-18).
      - id: read_only_compatible
        type: u4
      - id: compatible
        type: u4
      - id: hash_id
        type: u4
        enum: hash
      - id: uuid
        size: 16
      - id: hash_seed
        type: u8
      - id: cell_bits
        type: u4
        valid:
          any-of: [1, 4]
      - id: when_full
        type: u4
        enum: when_full
      - id: journal_bytes
        type: u8
        valid:
          max: 1073741824
      - id: target_rate
        type: f8
      - id: capacity
        type: u8
      - id: generations
        type: u8
      - id: rotate_after
        type: u8
      - id: key_check
        type: u8
      - id: reserved
        size: 3980
      - id: crc
        type: u4
    instances:
      is_counting:
        value: (incompatible & 1) != 0
      is_growing:
        value: (incompatible & 2) != 0
      is_rotating:
        value: (incompatible & 4) != 0
      is_sealed:
        value: (incompatible & 8) != 0
      is_keyed:
        value: (incompatible & 16) != 0
  slot:
    doc: A copy of the mutable state; a damaged one may hold anything (F-20, F-21).
    seq:
      - id: magic
        size: 8
      - id: body
        type: slot_body
        if: is_written
    instances:
      is_written:
        value: magic == [0x42, 0x4c, 0x4d, 0x53, 0x4c, 0x4f, 0x54, 0x00]
      sequence:
        value: 'is_written ? body.sequence : 0'
  slot_body:
    seq:
      - id: sequence
        type: u8
      - id: epoch
        type: u8
      - id: salt
        type: u8
      - id: state
        type: u4
        enum: state
      - id: segment_count
        type: u4
        valid:
          min: 1
          max: 32
      - id: mark
        type: u8
      - id: file_bytes
        type: u8
      - id: metadata_length
        type: u4
        valid:
          max: 1916
      - id: reserved_1
        size: 4
      - id: unverifiable_pages
        type: u8
      - id: repaired_pages
        type: u8
      - id: recoveries
        type: u8
      - id: next_salt
        type: u8
      - id: boot_id
        size: 16
      - id: salt_after_next
        type: u8
      - id: reserved_2
        size: 8
      - id: segments
        type: segment_record
        size: 64
        repeat: expr
        repeat-expr: segment_count
      - id: no_segments
        size: 2048 - 64 * segment_count
      - id: metadata
        type: metadata
        size: metadata_length
      - id: no_metadata
        size: 1916 - metadata_length
      - id: crc
        type: u4
  segment_record:
    doc: One geometry and where it lies (F-25).
    seq:
      - id: layout
        type: u4
        enum: layout
      - id: rows
        type: u4
        doc: 0 in the sealed layout.
        valid:
          max: 32
      - id: blocks
        type: u8
      - id: row_cells
        type: u8
      - id: capacity
        type: u8
      - id: adds
        type: u8
      - id: offset
        type: u8
      - id: table
        type: u4
        valid:
          max: 1
      - id: table_crc
        type: u4
      - id: ones
        type: u8
    instances:
      page_cells:
        value: 32768 / _root.superblock.cell_bits
      row_span:
        doc: Cells of a row of the rows layout, and of all of the flat one (F-56).
        value: (row_cells + page_cells - 1) / page_cells * page_cells
      block_span:
        value: >-
          layout == layout::rows ? rows * row_span
          : (layout == layout::flat ? row_span
          : (layout == layout::line ? 512 : 32768))
      pages:
        doc: Data pages (F-57).
        value: (blocks * block_span + page_cells - 1) / page_cells
      table_bytes:
        doc: A page table, padded to half a page or to whole ones (F-5).
        value: 'pages <= 256 ? 2048 : (pages * 8 + 4095) / 4096 * 4096'
  metadata:
    seq:
      - id: pairs
        type: pair
        repeat: eos
  pair:
    doc: Two texts (F-27).
    seq:
      - id: key_length
        type: u2
      - id: key
        type: str
        size: key_length
        encoding: UTF-8
      - id: value_length
        type: u2
      - id: value
        type: str
        size: value_length
        encoding: UTF-8
  half:
    params:
      - id: record_bytes
        type: u4
    seq:
      - id: records
        type: record(record_bytes)
        size: record_bytes
        repeat: eos
  record:
    doc: |
      A journal record (F-70). Whether it belongs to the epoch of the slot shows its check, which
      depends on epoch, salt and place (F-72); that is not computed here.
    params:
      - id: record_bytes
        type: u4
    seq:
      - id: value
        type: u8
      - id: old
        doc: In a counting file, the counters before the change (F-75).
        type: u8
        repeat: expr
        repeat-expr: 'record_bytes == 32 ? 2 : 0'
      - id: mask_and_check
        type: u8
  segment:
    params:
      - id: record
        type: segment_record
    instances:
      tables:
        io: _root._io
        pos: record.offset
        size: record.table_bytes
        type: table(record.pages)
        repeat: expr
        repeat-expr: 2
      current_table:
        value: tables[record.table]
      data:
        io: _root._io
        pos: record.offset + 2 * record.table_bytes
        size: 4096
        repeat: expr
        repeat-expr: record.pages
      sealed_pages:
        io: _root._io
        pos: record.offset + 2 * record.table_bytes
        size: 4096
        type: sealed_page
        repeat: expr
        repeat-expr: record.pages
        if: record.layout == layout::sealed
  sealed_page:
    doc: A page of equations (F-141).
    seq:
      - id: blocks
        type: u2
        doc: 0 no key, 0xffff "maybe" for every key.
        valid:
          expr: _ == 0 or _ == 0xffff or (_ >= 32 and _ <= 1019)
      - id: columns
        type: u1
      - id: bends
        type: s1
        repeat: expr
        repeat-expr: 17
      - id: words
        type: u4
        repeat: expr
        repeat-expr: 1019
  table:
    doc: CRC and number of ones, or of keys in a sealed file, of each data page (F-60).
    params:
      - id: pages
        type: u8
    seq:
      - id: entries
        type: entry
        repeat: expr
        repeat-expr: pages
  entry:
    seq:
      - id: crc
        type: u4
      - id: ones
        type: u4
enums:
  hash:
    1: seahash
    2: siphash_2_4
  when_full:
    0: allow
    1: refuse
    2: grow
  state:
    1: clean
    2: open
  layout:
    1: rows
    2: flat
    3: page
    4: line
    5: sealed
