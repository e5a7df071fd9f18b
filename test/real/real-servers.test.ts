/** One after the other: both use the same server. */
import './root-token';
import './leader-change';
import './first-night';
