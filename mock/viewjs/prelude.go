package viewjs

// prelude is what functions of views find beside emit and the language.
const prelude = `
function log() {}
function sum(values) { var s = 0; for (var i = 0; i < values.length; i++) { s += values[i]; } return s; }
function isArray(v) { return Array.isArray(v); }
function toJSON(v) { return JSON.stringify(v); }
function dateToArray(date) {
  date = date.getUTCDate ? date : new Date(date);
  return isFinite(date) ? [date.getUTCFullYear(), date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(),
    date.getUTCMinutes(), date.getUTCSeconds()] : null;
}
function decodeBase64(text) {
  var alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", bytes = [], bits = 0, n = 0;
  for (var i = 0; i < text.length; i++) {
    var at = alphabet.indexOf(text[i]);
    if (at < 0) { continue; }
    bits = (bits << 6 | at) & 0xffff;
    n += 6;
    if (n >= 8) { n -= 8; bytes.push(bits >> n & 0xff); }
  }
  return bytes;
}
`
