// Makes one page of the package: nothing is loaded from elsewhere.
import { readFileSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';

const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');

/** The code of a module as a function that gives what it exports. */
function scoped(code, imports, exports) {
  const body = code
    .replace(/^import .*$/gm, '')
    .replace(/^export \{[^}]*\};?$/gm, '')
    .replace(/^export default .*$/gm, '')
    .replace(/^export (class|function|async function)/gm, '$1');
  return `(() => {\n${imports}\n${body}\nreturn { ${exports} };\n})()`;
}

/** Comments and empty lines left out. */
const bare = (code) => code.replace(/^\s*(\/\/.*|\/\*\*[^]*?\*\/)$/gm, '').replace(/\n\s*\n+/g, '\n');

const glue = scoped(read('../target/page/bloomfile.js'), '', 'initialise: __wbg_init, Job, Keys, Reporter');
const library = scoped(read('../js/shared.js') + read('../js/index.js'), 'const { initialise, Job, Keys } = glue;', 'BloomFile, BloomFileError, JOB, compare, explain, plain, ready');
const wasm = gzipSync(readFileSync(new URL('../target/page/bloomfile_bg.wasm', import.meta.url)), { level: 9 });
const style = read('../../../tools/describe/src/html/page.css') + read('app.css');
const script = bare(`const glue = ${glue};\nconst library = ${library};\n${read('app.js')}`);
const page = read('page.html')
  .replace('/*STYLE*/', () => style.trim())
  .replace('/*SCRIPT*/', () => `const MODULE = '${wasm.toString('base64')}';\n${script.trim()}`);
if (/<\/script/i.test(script)) throw new Error('the script would end early');
writeFileSync(new URL('../pkg/page.html', import.meta.url), page);
