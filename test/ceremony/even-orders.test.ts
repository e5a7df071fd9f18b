import type * as Killable from './killable';
import { testOrders } from './played-orders';

jest.mock('../../activities', () => jest.requireActual<typeof Killable>('./killable').killableActivities());

testOrders('even');
