import { z } from 'zod';
import { inventorySchema } from './schema';

/**
 * The inventory file as JSON Schema, for editors; docs/inventory.schema.json has it. It describes single members:
 * `runbook inventory check` also checks them against each other.
 */
export function inventoryJsonSchema(): object {
  const schema = z.toJSONSchema(inventorySchema, {
    io: 'input',
    // The newest form that the language server of editors supports completely.
    target: 'draft-7',
    reused: 'ref',
    override: ({ jsonSchema }) => {
      // Not a format of JSON Schema; a pattern says the same.
      if (jsonSchema.format === 'starts_with') delete jsonSchema.format;
    },
  });
  return { ...schema, title: 'Inventory of replication runbooks' };
}
