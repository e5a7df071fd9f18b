import { temporalClient, temporalServer } from '../support/temporal-server';

describe('the server of the test run', () => {
  it('serves gRPC', async () => {
    const client = await temporalClient();
    expect((await client.workflowService.describeNamespace({ namespace: temporalServer().namespace })).namespaceInfo?.name).toBe('default');
  });
});
