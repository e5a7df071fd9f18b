const { relative } = require('node:path');
const { default: Sequencer } = require('@jest/test-sequencer');

/**
 * Without data about earlier runs, as in a fresh clone, the slowest files start first. If one started last, it would
 * keep one process busy while the others are idle.
 */
class LongestFirst extends Sequencer {
  sort(tests) {
    const ranks = new Map(tests.map((test) => [test, rankOf(relative(test.context.config.rootDir, test.path))]));
    return super.sort(tests).sort((one, other) => ranks.get(one) - ranks.get(other));
  }
}

const ORDER = [
  /^test\/ceremony\//,
  /^test\/(demo|pages)\//,
  // Tests of activities mostly wait and leave the cores to tests of workflows.
  /^test\/(workflows|activities)\/[^/]+$/,
];

function rankOf(path) {
  const rank = ORDER.findIndex((each) => each.test(path));
  return rank < 0 ? ORDER.length : rank;
}

module.exports = LongestFirst;
