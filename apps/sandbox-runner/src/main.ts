import { FaultError } from '@countersign/kernel';

throw new FaultError('the sandbox-runner is not built yet; nothing was started', {
  code: 'countersign.product.unimplemented',
});
