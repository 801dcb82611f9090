/** The part of `request_summary` that all routes share. Never a label or attribute. */
import type { Described } from "./requests.ts";

export interface RequestSummary {
  readonly workloadApplication: string;
  readonly workloadEnvironment?: string | undefined;
  readonly workloadComponent?: string | undefined;
  readonly resourceKind: string;
  readonly resourceId?: string | undefined;
  readonly mimeType?: string | undefined;
  readonly purpose?: string | undefined;
  readonly labelCount: number;
  readonly attributeCount: number;
}

export function summarize({ workload, resource, purpose, labels, attributes }: Described): RequestSummary {
  return {
    workloadApplication: workload.application,
    workloadEnvironment: workload.environment,
    workloadComponent: workload.component,
    resourceKind: resource.kind,
    resourceId: resource.id,
    mimeType: resource.mime_type,
    purpose,
    labelCount: labels.length,
    attributeCount: Object.keys(attributes).length,
  };
}
