const { relative } = require('node:path');
const { default: Sequencer } = require('@jest/test-sequencer');

/**
 * Where nothing is known of earlier runs, as in a fresh clone, the files that take longest begin first: one that begins
 * last would keep one process busy while the others have nothing left to do.
 */
class LongestFirst extends Sequencer {
  sort(tests) {
    const ranks = new Map(tests.map((test) => [test, rankOf(relative(test.context.config.rootDir, test.path))]));
    return super.sort(tests).sort((one, other) => ranks.get(one) - ranks.get(other));
  }
}

const ORDER = [
  /^test\/ceremony\//,
  /^test\/(demo|holder-page)\//,
  // Those of activities mostly wait, and leave the cores to those of workflows.
  /^test\/(workflows|activities)\/[^/]+$/,
];

function rankOf(path) {
  const rank = ORDER.findIndex((each) => each.test(path));
  return rank < 0 ? ORDER.length : rank;
}

module.exports = LongestFirst;
