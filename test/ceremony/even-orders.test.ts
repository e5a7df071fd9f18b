import type * as Activities from '../../activities';
import type * as Killable from './killable';
import { testOrders } from './played-orders';

jest.mock('../../activities', () => {
  const actual = jest.requireActual<typeof Activities>('../../activities');
  const { killable } = jest.requireActual<typeof Killable>('./killable');
  return { ...actual, interceptActivities: (given: never) => killable(actual.interceptActivities(given)) };
});

testOrders('even');
