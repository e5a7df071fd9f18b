import type { TokenActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import type { Clusters } from './support/clusters';

export function createTokenActivities(dependencies: ActivityDependencies, clusters: Clusters): TokenActivities {
  void dependencies;
  void clusters;
  return {};
}
