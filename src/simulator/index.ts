export { SimulatedCluster } from './cluster';
export type { Fault, FaultHandle } from './faults';
export type { RecordedCall } from './http';
export { runSimulatorProgram, startSimulator } from './program';
export type { SimulatorState } from './program';
export { startSimulatedService, SimulatedService } from './service';
export type { ReplicationKind } from './storage';
export { HARSH_READINGS, parseTopology, timingOf } from './topology';
export type { Topology } from './topology';
